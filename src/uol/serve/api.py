"""The routes: scores, comparisons, rankings and explanations of images, facts about the model, health and figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.exceptions import HTTPException

import uol
from uol.errors import ImageError, UolError
from uol.images.framing import FaceRecord, FramedFile
from uol.images.read import ImageBytes
from uol.scoring import job, row_file
from uol.scoring.released import ALL_PANELS
from uol.scoring.rows import ScoreRow, panels_row, rank_rows, score_row
from uol.serve import assets
from uol.serve.bodies import AnyBody, RefusedError, Sent, declared_size, read_body
from uol.serve.engine import BusyError, Engine, LostError, SlowError
from uol.serve.facts import model_facts
from uol.serve.guard import IMAGES, OPEN, Guard, problem
from uol.serve.limits import Limits
from uol.serve.metrics import CONTENT_TYPE, Metrics
from uol.serve.schemas import (
    CompareAnswer,
    CompareBody,
    ExplainBody,
    ImageIn,
    Model,
    ModelsAnswer,
    Problem,
    RankAnswer,
    RankBody,
    RequestLimits,
    ScoreAnswer,
    ScoreBody,
    request_body,
)
from uol.storage.files import plain

Found = TypeVar("Found")

_DESCRIPTION = (
    "Scores say what a panel of raters would say of an image. They measure nothing about a person and must not be "
    "used to judge or identify anyone. Images are kept in memory until they are answered, and nowhere else."
)
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "Not a readable request"},
    401: {"model": Problem, "description": "A token is missing or wrong"},
    408: {"model": Problem, "description": "The request arrived too slowly"},
    413: {"model": Problem, "description": "Too many bytes or images"},
    415: {"model": Problem, "description": "Neither a form nor JSON"},
    422: {"model": Problem, "description": "A value is wrong, or an image cannot be used"},
    429: {"model": Problem, "description": "The queue is full; Retry-After has the seconds to wait"},
    503: {"model": Problem, "description": "The model is not available"},
    504: {"model": Problem, "description": "Not finished within the time limit"},
}
_TABLE = {"text/csv": {"schema": {"type": "string"}}}
_GONE = 499  # as nginx writes it: the client left before its answer


class Service:
    """A model, the engine that asks it, and what requests share."""

    def __init__(self, model: str, limits: Limits, engine: Engine | None = None) -> None:
        self.facts: Model = model_facts(model)
        self.limits = limits
        self.engine = Engine(model, limits) if engine is None else engine
        self.metrics = Metrics(self.engine)

    async def answer(
        self, request: Request, kind: type[AnyBody], work: Callable[[AnyBody, list[Sent]], Coroutine[Any, Any, Found]]
    ) -> Found:
        """Read a request and do its work; stop it if the client leaves."""
        if request.query_params:
            raise RefusedError(400, "this address reads no parameters after `?`: send them in the body")
        with self.engine.body(declared_size(request, self.limits)) as arrived:
            body, sent = await read_body(request, kind, self.limits)
            arrived(len(sent))
            request.scope[IMAGES] = len(sent)
            self._check_panel(body)
            return await _while_connected(request, work(body, sent))

    async def score(self, body: RankBody, sent: list[Sent]) -> list[ScoreRow]:
        """The rows of all images, in order; an image that cannot be scored has a row with its error."""
        if body.all_faces and self.facts.framing == "whole":
            raise RefusedError(422, "all_faces: this model scores whole images and finds no faces")
        images = tuple(one for one in sent if isinstance(one, ImageBytes))
        found = iter(
            await self.engine.ask("score", images, body.all_faces, body.panel, None, body.interval) if images else []
        )
        rows: list[ScoreRow] = []
        for one in sent:
            mine = [self._refused_row(one, body.panel)] if isinstance(one, FramedFile) else next(found)
            self.metrics.images.labels("scored" if mine[0]["error"] is None else "failed").inc()
            rows += mine
        return rows

    async def compare(self, body: CompareBody, sent: list[Sent]) -> Any:
        """The probabilities that the panel rates the first image below, similar to, or above the second."""
        return await self.engine.ask("compare", _usable(sent), panel=body.panel)

    async def explain(self, body: ExplainBody, sent: list[Sent]) -> bytes:
        """The picture of how a score came about."""
        if not self.facts.explains:
            raise RefusedError(422, "explanations are drawn of one network, not of an ensemble")
        face: FaceRecord | None = None
        if body.box is not None and self.facts.framing == "face":
            face = {"box": body.box, "confidence": 1.0, "problems": []}
        picture: bytes = await self.engine.ask("explain", _usable(sent), face is not None, body.panel, face)
        return picture

    def _refused_row(self, refused: FramedFile, panel: str | None) -> ScoreRow:
        if panel != ALL_PANELS:
            return score_row(refused, None)
        return panels_row(refused, {known.name: None for known in self.facts.panels})

    def _check_panel(self, body: RankBody | CompareBody | ExplainBody) -> None:
        names = [known.name for known in self.facts.panels]
        if body.panel is None or body.panel in names or (body.panel == ALL_PANELS and isinstance(body, ScoreBody)):
            return
        raise RefusedError(422, f"panel: this model has no such panel; it has: {', '.join(names)}")


def create_app(
    service: Service,
    token: str | None = None,
    hosts: frozenset[str] | None = None,
    log: Callable[[dict[str, Any]], None] | None = None,
) -> FastAPI:
    """The application: routes, the page and what surrounds them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.engine.start()
        yield
        await service.engine.close()

    app = FastAPI(title="uol serve", version=uol.__version__, description=_DESCRIPTION, lifespan=lifespan)
    app.router.routes.clear()  # the documents that FastAPI would fetch from elsewhere
    _add_answers(app, service)
    _add_facts(app, service)
    assets.add_pages(app)
    _add_problems(app)
    _describe(app, token is not None)
    public = frozenset({*OPEN, *assets.PUBLIC})
    app.add_middleware(Guard, metrics=service.metrics, token=token, hosts=hosts, public=public, log=log)
    return app


def _add_answers(app: FastAPI, service: Service) -> None:
    panels = [panel.name for panel in service.facts.panels]

    @app.post(
        "/v1/score", response_model=list[ScoreAnswer], responses={200: {"content": _TABLE}, **_REFUSALS},
        openapi_extra=request_body(ScoreBody, [*panels, ALL_PANELS]), tags=["images"],
    )  # fmt: skip
    async def score(request: Request) -> Response:
        """Score images, each with an interval: the rows of `uol score --json`, or CSV if `Accept` is text/csv."""
        rows = await service.answer(request, ScoreBody, service.score)
        several = bool(rows) and "panels" in rows[0]
        return _rows(request, rows, job.columns_of(service.facts.panels if several else None))

    @app.post(
        "/v1/rank", response_model=list[RankAnswer], responses={200: {"content": _TABLE}, **_REFUSALS},
        openapi_extra=request_body(RankBody, panels), tags=["images"],
    )  # fmt: skip
    async def rank(request: Request) -> Response:
        """Rank images from best to worst: the rows of `uol rank --json`, or CSV if `Accept` is text/csv."""
        rows = await service.answer(request, RankBody, service.score)
        return _rows(request, rank_rows(rows), job.RANK_COLUMNS)

    @app.post(
        "/v1/compare", response_model=CompareAnswer, responses=_REFUSALS, tags=["images"],
        openapi_extra=request_body(CompareBody, panels),
    )  # fmt: skip
    async def compare(request: Request) -> Response:
        """Compare two images: what `uol compare --json` prints."""
        return _json(await service.answer(request, CompareBody, service.compare))

    @app.post(
        "/v1/explain", response_class=Response, openapi_extra=request_body(ExplainBody, panels), tags=["images"],
        responses={200: {"content": {"image/png": {}}, "description": "A picture"}, **_REFUSALS},
    )  # fmt: skip
    async def explain(request: Request) -> Response:
        """Draw how the score of an image came about: a PNG file."""
        return Response(await service.answer(request, ExplainBody, service.explain), media_type="image/png")


def _add_facts(app: FastAPI, service: Service) -> None:
    engine, limits = service.engine, service.limits

    @app.get("/v1/models", responses={401: _REFUSALS[401]}, tags=["facts"])
    async def models() -> ModelsAnswer:
        """The model, its panels, where it is weak, and the limits of a request."""
        model = service.facts.model_copy(update={"loaded": engine.loaded})
        named = RequestLimits(
            images=limits.images,
            image_bytes=limits.image_bytes,
            body_bytes=limits.body_bytes,
            pixels=limits.pixels,
            seconds=limits.seconds,
            seconds_per_image=engine.seconds_per_image,
        )
        return ModelsAnswer(version=uol.__version__, models=[model], limits=named)

    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok"}

    @app.get("/readyz", responses={503: _REFUSALS[503]}, tags=["health"], response_model=dict[str, str])
    async def readyz() -> Response:
        """Whether the service accepts images; a model that left memory when idle is loaded on demand."""
        if engine.load_error is not None:
            return problem(503, engine.load_error)
        if not engine.ready:
            return problem(503, "the model is being loaded")
        return _json({"status": "ready"})

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, 401: _REFUSALS[401]}, tags=["health"],
             response_class=Response)  # fmt: skip
    async def metrics() -> Response:
        """Figures in Prometheus' format."""
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _add_problems(app: FastAPI) -> None:
    """Answer every refusal with one line."""

    @app.exception_handler(UolError)
    async def refused(_: Request, error: UolError) -> Response:
        if isinstance(error, BusyError):
            return problem(429, str(error), {"Retry-After": str(error.after)})
        if isinstance(error, RefusedError):
            return problem(error.status, str(error))
        statuses = {ImageError: 422, SlowError: 504, LostError: 503}
        return problem(next((status for kind, status in statuses.items() if isinstance(error, kind)), 500), str(error))

    @app.exception_handler(HTTPException)
    async def failed(_: Request, error: HTTPException) -> Response:
        text = {404: "no such address; /docs lists them", 405: "this address takes another method; see /docs"}
        return problem(error.status_code, text.get(error.status_code, str(error.detail)), error.headers)


def _describe(app: FastAPI, token: bool) -> None:
    """The OpenAPI description, with the schemas of bodies that are read by hand."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            made["components"]["schemas"]["ImageIn"] = ImageIn.model_json_schema()
            if token:
                made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                made["security"] = [{"token": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def described() -> Response:
        return _json(app.openapi())


async def _while_connected(request: Request, work: Coroutine[Any, Any, Found]) -> Found:
    """The result of some work, which is cancelled when the client leaves."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RefusedError(_GONE, "the client has left")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _usable(sent: list[Sent]) -> tuple[ImageBytes, ...]:
    """Images, none of which was refused."""
    for one in sent:
        if isinstance(one, FramedFile):
            raise ImageError(one.error)
    return tuple(one for one in sent if isinstance(one, ImageBytes))


def _rows(request: Request, rows: Any, columns: tuple[str, ...]) -> Response:
    if "text/csv" in request.headers.get("accept", ""):
        return Response(row_file.as_csv(rows, columns), media_type="text/csv")
    return _json(rows)


def _json(value: Any) -> Response:
    """A value as the command line prints it: NaN and infinities are null."""
    return Response(json.dumps(plain(value), ensure_ascii=False, allow_nan=False), media_type="application/json")
