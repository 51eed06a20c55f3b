"""uol study serve and forget: collect answers on a page, and delete a participant's data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from uol.cli.output import say
from uol.errors import UolError, install

_EXTRA = frozenset({"fastapi", "prometheus_client", "python_multipart", "sqlalchemy", "uvicorn"})
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database", envvar="UOL_DATABASE", help="postgresql://user@host/name; a file in the folder if not given."
    ),
]
StudyArgument = Annotated[Path, typer.Argument(help="A study folder, from `uol study new`.")]


class Protection(StrEnum):
    """What keeps strangers from a public address."""

    PROXY = "proxy"
    NETWORK = "network"


def serve(
    folder: StudyArgument,
    host: Annotated[str, typer.Option("--host", help="Address to serve; other machines reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
    admin_token: Annotated[
        str | None,
        typer.Option("--admin-token", envvar="UOL_ADMIN_TOKEN", help="For the live page; random if not given."),
    ] = None,
    database: DatabaseOption = None,
    protected_by: Annotated[
        Protection | None,
        typer.Option("--protected-by", help="proxy (TLS in front) or network (trusted): required of a public address."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Another name of this machine, such as a proxy's.")
    ] = None,
) -> None:
    """Serve a study to participants, and its live page to the researcher; every answer is on the disk at once.

    Example: uol study serve study/
    """
    try:
        from uol.serve.server import listen
        from uol.study.folder import open_study
        from uol.study.new import unfinished
        from uol.study.server import check_access, serve_study
        from uol.study.sessions import Sessions
        from uol.study.store import Store, database_url
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    token = check_access(host, admin_token or None, None if protected_by is None else protected_by.value)
    study = open_study(folder)
    store = Store(database_url(study.path, database)).claim()
    try:
        sessions = Sessions(study, store)
        listening = listen(host, port)
    except Exception:
        store.close()
        raise
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"
    say(f"uol study: {address} for participants (answers in {store.name}; Ctrl-C ends it)")
    # A token that was given is known, and stays out of logs.
    say(f"uol study: {address}live for the researcher" + ("" if admin_token else f", token {token}"))
    if (warning := unfinished(study)) is not None:
        say(f"uol study: {warning}")
    serve_study(sessions, listening, host, token, tuple(allow_host or ()))


def forget(
    folder: StudyArgument,
    participant: Annotated[str, typer.Argument(help="As `uol study status` and the table of answers name them.")],
    answers: Annotated[
        bool, typer.Option("--answers", help="Delete all answers too, and their place in the log.")
    ] = False,
    database: DatabaseOption = None,
) -> None:
    """Delete a participant's personal data; answers stay, without a name, unless --answers is given.

    Example: uol study forget study/ p0007
    """
    try:
        from uol.study.folder import open_study
        from uol.study.store import Store, database_url
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    store = Store(database_url(open_study(folder).path, database), create=False).claim()
    try:
        done = store.forget(participant, answers=answers)
    finally:
        store.close()
    say(f"{participant}: deleted {done['personal']} personal fields and {done['answers']} answers")


def _missing(error: ModuleNotFoundError) -> Exception:
    if (error.name or "").split(".")[0] in _EXTRA:
        return UolError(f"uol study serve needs {error.name}: {install('study')}")
    return error
