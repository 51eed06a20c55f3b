"""The page, its drawn sample faces and the documents of the API: files of this installation alone."""

from __future__ import annotations

import asyncio
import mimetypes
from functools import cache
from importlib import resources
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from uol.serve import samples

_PAGE = ("style.css", "icon.svg", "docs.js", "main.js", "client.js", "cards.js", "draw.js", "csv.js", "camera.js")
_SAMPLES = (*samples.NAMES, samples.TOGETHER)
_SWAGGER = ("swagger-ui-bundle.js", "swagger-ui.css")
PUBLIC = frozenset(
    ["/", "/docs", "/openapi.json"]
    + [f"/page/{name}" for name in _PAGE]
    + [f"/docs/{name}" for name in _SWAGGER]
    + [f"/samples/{name}" for name in _SAMPLES]
)


def add_pages(app: FastAPI) -> None:
    """Add the routes of the page and of the documents; only files in the lists above can be named."""

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return file_answer("uol.serve", "page", "index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page(name: str) -> Response:
        return file_answer("uol.serve", "page", _known(name, _PAGE))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return file_answer("uol.serve", "page", "docs.html")

    @app.get("/docs/{name}", include_in_schema=False)
    async def swagger(name: str) -> Response:
        return file_answer("fastapi_offline", "static", _known(name, _SWAGGER))

    @app.get("/samples/{name}", include_in_schema=False)
    async def sample(name: str) -> Response:
        picture = await asyncio.to_thread(samples.sample, _known(name, _SAMPLES))
        return Response(picture, media_type="image/png")


def _known(name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise HTTPException(404)
    return name


@cache
def file_answer(package: str, folder: str, name: str) -> Response:
    """A file of an installed package."""
    content: Any = (resources.files(package) / folder / name).read_bytes()
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, media_type="text/javascript" if name.endswith(".js") else kind)
