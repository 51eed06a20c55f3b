"""uol serve: a page and an HTTP API on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from uol.cli.options import ModelOption
from uol.cli.output import say
from uol.errors import UolError, install
from uol.scoring.released import DEFAULT

_EXTRA = frozenset({"fastapi", "fastapi_offline", "multipart", "prometheus_client", "python_multipart", "uvicorn"})


def serve(
    model: ModelOption = DEFAULT,
    host: Annotated[str, typer.Option("--host", help="Address to serve; other machines reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option("--token", envvar="UOL_TOKEN", help="Required of every request, if set.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Another name of this machine, such as a proxy's.")
    ] = None,
    queue: Annotated[int, typer.Option("--queue", min=1, help="Images that may wait; more are refused.")] = 128,
    max_images: Annotated[int, typer.Option("--max-images", min=1, help="Images in one request.")] = 64,
    max_megabytes: Annotated[float, typer.Option("--max-megabytes", min=0.001, help="Size of one request.")] = 64,
    max_megapixels: Annotated[float, typer.Option("--max-megapixels", min=0.001, help="Pixels of one image.")] = 50,
    time_limit: Annotated[float, typer.Option("--time-limit", min=0.1, help="Seconds for an answer.")] = 60,
    idle: Annotated[
        float, typer.Option("--idle", min=0.1, help="Seconds without a request until the model leaves memory.")
    ] = 600,
) -> None:
    """Serve a page and an API that score images on this machine; nothing is stored, and nothing leaves the machine.

    Example: uol serve --open
    """
    try:
        from uol.serve.api import Service
        from uol.serve.limits import MEGABYTE, Limits
        from uol.serve.server import check_access, listen
        from uol.serve.server import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _EXTRA:
            raise UolError(f"uol serve needs {error.name}: {install('serve')}") from error
        raise
    token = token or None
    check_access(host, token)
    body = int(max_megabytes * MEGABYTE)
    limits = Limits(
        images=min(max_images, queue), image_bytes=min(Limits.image_bytes, body), body_bytes=body,
        pixels=int(max_megapixels * MEGABYTE), queue=queue, memory_bytes=max(Limits.memory_bytes, 2 * body),
        seconds=time_limit, idle_seconds=idle,
    )  # fmt: skip
    service = Service(model, limits)
    listening = listen(host, port)
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"
    say(f"uol serve: {address} (API: {address}docs; Ctrl-C ends it)")
    if open_page:
        import webbrowser

        # The part after # stays in the browser.
        webbrowser.open(address if token is None else f"{address}#token={token}")
    run(service, listening, host, token, tuple(allow_host or ()))
