"""The routes: the page, a participant's session, and what the researcher sees.

A participant's token opens one session and the images of its trials. The researcher's token opens `/v1/admin/…`.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

import uol
from uol.errors import CallError, ImageError, UolError
from uol.serve.assets import file_answer
from uol.serve.bodies import RefusedError, clean_name, declared_size, problem_of, stream_body
from uol.serve.guard import Guard
from uol.serve.limits import Limits
from uol.serve.metrics import CONTENT_TYPE, RequestMetrics
from uol.study.live import Live, LiveAnswer
from uol.study.pictures import Pictures
from uol.study.schemas import (
    AnswerBody,
    EnterAnswer,
    EnterBody,
    ForgetAnswer,
    ForgetBody,
    Problem,
    SavedAnswer,
    SessionView,
    StudyView,
    request_body,
)
from uol.study.sessions import EntryError, Session, Sessions
from uol.study.store import AnsweredError, StoreError
from uol.study.views import language_of, parameters, session_view, study_view

LIMITS = Limits(body_bytes=16_384, seconds=15.0, body_seconds=15.0)
_OF_SERVE = ("style.css", "icon.svg", "draw.js")
_OF_STUDY = ("study.css", "main.js", "client.js", "tasks.js", "pictures.js", "words.js", "live.js", "figures.js")
_LONGEST_VALUE = 200
_ENTRIES, _ENTRY_SECONDS = 600, 60.0  # sessions that may begin within so many seconds: nobody fills the disk

Body = TypeVar("Body", bound=BaseModel)


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    texts = {
        400: "Not a readable request", 401: "A token is missing or wrong", 403: "This is not possible (any more)",
        404: "No such thing", 408: "The request arrived too slowly", 409: "Another trial is to be answered now",
        413: "Too many bytes", 415: "Not JSON", 422: "A value is wrong", 429: "Too many at once",
        503: "The database cannot be used now; try again",
    }  # fmt: skip
    return {status: {"model": Problem, "description": texts[status]} for status in statuses}


_BODY = (400, 408, 413, 415, 422)


def create_app(
    sessions: Sessions,
    admin_token: str,
    hosts: frozenset[str] | None = None,
    log: Callable[[dict[str, Any]], None] | None = None,
) -> FastAPI:
    """The application: routes, the pages and what surrounds them."""
    live, metrics = Live(sessions), RequestMetrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.ensure_future(live.watch())
        yield
        watching.cancel()

    app = FastAPI(title="uol study", version=uol.__version__, lifespan=lifespan)
    app.state.sessions, app.state.pictures = sessions, Pictures()
    app.router.routes.clear()  # the documents that FastAPI would fetch from elsewhere
    _add_participants(app, sessions)
    _add_admin(app, sessions, live, admin_token, metrics)
    _add_pages(app)
    _add_health(app, sessions)
    _add_problems(app)

    @app.get("/openapi.json", include_in_schema=False)
    async def described() -> Response:
        return JSONResponse(_describe(app))

    app.add_middleware(Guard, metrics=metrics, hosts=hosts, log=log)
    return app


async def _session_of(request: Request) -> Session:
    """The session of the token that a request shows (async: FastAPI would run it in a thread)."""
    sessions: Sessions = request.app.state.sessions
    session = sessions.find(_token(request))
    if session is None:
        raise EntryError(401, "unknown-token", "send the token of a session as: Authorization: Bearer TOKEN")
    return session


OfToken = Annotated[Session, Depends(_session_of)]


def _add_participants(app: FastAPI, sessions: Sessions) -> None:
    settings = sessions.study.settings
    begun: deque[float] = deque(maxlen=_ENTRIES)

    @app.get("/v1/study", response_model=StudyView, tags=["participants"])
    async def study(language: str = "") -> StudyView:
        """What everybody may know about the study, in one of its languages."""
        return study_view(sessions, language[:35])

    @app.post("/v1/sessions", response_model=EnterAnswer, responses=_refusals(*_BODY, 403, 429, 503),
              openapi_extra=request_body(EnterBody), tags=["participants"])  # fmt: skip
    async def enter(request: Request) -> EnterAnswer:
        """Take part: a token and the first trial. Somebody known goes on, begins again, or is refused.

        With a token that the browser made, the same request may be sent again until the first answer.
        """
        body = await _read(request, EnterBody)
        if not body.agreed:
            raise EntryError(422, "not-agreed", "agreed: nobody takes part without agreeing")
        now = monotonic()
        if len(begun) == _ENTRIES and now - begun[0] < _ENTRY_SECONDS:
            raise EntryError(429, "busy", "too many people begin at once; try again in a minute")
        begun.append(now)
        personal = {name: _checked(body.personal[name]) for name in parameters(settings) if body.personal.get(name)}
        if settings.store_addresses:
            personal |= {"address": request.client.host if request.client else "", "agent": _agent(request)}
        language = language_of(settings, body.language)
        session, token = await asyncio.to_thread(sessions.enter, language, personal, body.token)
        return EnterAnswer(token=token, state=session_view(sessions, session))

    @app.post("/v1/session/return", response_model=EnterAnswer, responses=_refusals(401, 403, 503),
              tags=["participants"])  # fmt: skip
    async def come_back(request: Request, session: OfToken) -> EnterAnswer:
        """Come back to a session, after a reload or on another device: by the policy of the study."""
        session, token = await asyncio.to_thread(sessions.come_back, session, _token(request))
        return EnterAnswer(token=token, state=session_view(sessions, session))

    @app.get("/v1/session", response_model=SessionView, responses=_refusals(401), tags=["participants"])
    async def state(session: OfToken) -> SessionView:
        """Where the participant is."""
        return session_view(sessions, session)

    @app.post("/v1/answers", response_model=SavedAnswer, responses=_refusals(*_BODY, 401, 409, 503),
              openapi_extra=request_body(AnswerBody), tags=["participants"])  # fmt: skip
    async def answer(request: Request, session: OfToken) -> Response:
        """Save the answer to the current trial: this is answered once it is on the disk.

        The same request may be sent again: the first answer to a trial stays.
        """
        body = await _read(request, AnswerBody)
        saving = sessions.answer(session, body.trial, body.answer, body.response_ms)
        repeated = saving is None
        if saving is not None:
            try:
                await asyncio.wrap_future(saving)
            except AnsweredError:
                repeated = True
        return _json(SavedAnswer(repeated=repeated, state=session_view(sessions, session)))

    @app.post("/v1/session/withdraw", responses=_refusals(401, 503), tags=["participants"])
    async def withdraw(session: OfToken) -> dict[str, str]:
        """Stop taking part."""
        await asyncio.to_thread(sessions.withdraw, session)
        return {"status": "ended"}

    @app.get("/v1/images/{key}", response_class=Response, responses={200: _PICTURE, **_refusals(401, 404)},
             tags=["participants"])  # fmt: skip
    async def image(request: Request, key: str, session: OfToken) -> Response:
        """An image of one of the session's trials."""
        return await _picture(request, key, session)


_PICTURE: dict[str, Any] = {"content": {"image/*": {}}, "description": "An image"}


def _add_admin(app: FastAPI, sessions: Sessions, live: Live, admin_token: str, metrics: RequestMetrics) -> None:
    async def check(request: Request) -> None:  # async: other functions would run in a thread each
        if not hmac.compare_digest(_token(request).encode(), admin_token.encode()):
            raise EntryError(401, "unknown-token", "send the researcher's token as: Authorization: Bearer TOKEN")

    options: dict[str, Any] = {"dependencies": [Depends(check)], "tags": ["researcher"]}

    @app.get("/v1/admin/live", response_model=LiveAnswer, responses=_refusals(401, 503), **options)
    async def figures() -> LiveAnswer:
        """How far the study is: participants, answers, the scale with intervals, reliability, flags, when to stop."""
        return await live.answer()

    @app.get("/v1/admin/images/{key}", response_class=Response, responses={200: _PICTURE, **_refusals(401, 404)},
             **options)  # fmt: skip
    async def image(request: Request, key: str) -> Response:
        """An image of the study."""
        return await _picture(request, key, None)

    @app.get("/v1/admin/answers.csv", response_class=Response, **options,
             responses={200: {"content": {"text/csv": {}}}, **_refusals(401, 503)})  # fmt: skip
    async def answers() -> Response:
        """All answers so far, as `uol study export` writes them."""
        return Response(await asyncio.to_thread(live.answers_csv), media_type="text/csv")

    @app.post("/v1/admin/forget", response_model=ForgetAnswer, responses=_refusals(*_BODY, 401, 404, 503),
              openapi_extra=request_body(ForgetBody), **options)  # fmt: skip
    async def forget(request: Request) -> ForgetAnswer:
        """Delete a participant's personal data and, if asked, all answers."""
        body = await _read(request, ForgetBody)
        try:
            return ForgetAnswer(**await asyncio.to_thread(sessions.forget, body.participant, body.answers))
        except CallError as error:
            raise EntryError(404, "unknown-participant", str(error)) from error

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **_refusals(401)},
             **options)  # fmt: skip
    async def figures_of_requests() -> Response:
        """Figures in Prometheus' format."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return file_answer("uol.study", "page", "index.html")

    @app.get("/live", include_in_schema=False)
    async def live_page() -> Response:
        return file_answer("uol.study", "page", "live.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page(name: str) -> Response:
        if name not in (*_OF_SERVE, *_OF_STUDY):
            raise HTTPException(404)
        return file_answer("uol.serve" if name in _OF_SERVE else "uol.study", "page", name)


def _add_health(app: FastAPI, sessions: Sessions) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"], responses=_refusals(503))
    async def readyz() -> dict[str, str]:
        """Whether answers can be saved."""
        await asyncio.wait_for(asyncio.wrap_future(sessions.store.submit(lambda _: None)), LIMITS.seconds)
        return {"status": "ready"}


def _add_problems(app: FastAPI) -> None:
    """Answer every refusal with one line, and a word for the page where it has a text for it."""

    @app.exception_handler(UolError)
    async def refused(_: Request, error: UolError) -> Response:
        if isinstance(error, EntryError):
            return _problem(error.status, str(error), error.reason)
        if isinstance(error, RefusedError):
            return _problem(error.status, str(error))
        if isinstance(error, ImageError):
            return _problem(404, "this image cannot be read")
        if isinstance(error, StoreError):  # its text names the database, which is not for participants
            return _problem(503, "answers cannot be saved now; try again", "busy", {"Retry-After": "1"})
        return _problem(500, "unexpected " + type(error).__name__)

    @app.exception_handler(HTTPException)
    async def failed(_: Request, error: HTTPException) -> Response:
        text = {404: "no such address", 405: "this address takes another method"}
        return _problem(error.status_code, text.get(error.status_code, str(error.detail)), None, error.headers)


def _problem(status: int, text: str, reason: str | None = None, headers: Any = None) -> Response:
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse({"error": text, "reason": reason}, status, {**challenge, **(headers or {})})


async def _read(request: Request, kind: type[Body]) -> Body:
    """The values of a request, which is JSON of a few kilobytes."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "send application/json")
    declared_size(request, LIMITS)
    try:
        async with asyncio.timeout(LIMITS.body_seconds):
            content = b"".join([chunk async for chunk in stream_body(request, LIMITS)])
        return kind.model_validate_json(content)
    except TimeoutError:
        raise RefusedError(408, f"the request did not arrive within {LIMITS.body_seconds:g} s") from None
    except ValidationError as error:
        unreadable = error.errors()[0]["type"] == "json_invalid"
        raise RefusedError(400 if unreadable else 422, problem_of(error)) from error


async def _picture(request: Request, key: str, session: Session | None) -> Response:
    """An image; its file is not named, as the name may give a condition away."""
    sessions: Sessions = request.app.state.sessions
    pictures: Pictures = request.app.state.pictures
    name = sessions.image(key, session)
    if name is None:
        raise EntryError(404, "unknown-image", "no such image here")
    path = sessions.study.files[name]
    found = pictures.kept(path)
    if found is None:
        found = await asyncio.to_thread(pictures.read, path)
    return Response(found.content, media_type=found.kind)


def _json(value: BaseModel) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def _token(request: Request) -> str:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""


def _checked(value: str) -> str:
    """A value from the address, short and printable."""
    return clean_name(value)[:_LONGEST_VALUE]


def _agent(request: Request) -> str:
    return _checked(request.headers.get("user-agent", ""))


def _describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
        app.openapi_schema = made
    return app.openapi_schema
