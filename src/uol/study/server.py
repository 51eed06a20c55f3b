"""Running a study: uvicorn on one address, one process per study, ended without losing an answer."""

from __future__ import annotations

import secrets
import socket
import sys
from typing import Literal

from uol.errors import CallError
from uol.serve.guard import allowed_hosts, is_loopback
from uol.serve.log import Log
from uol.serve.server import run_app
from uol.study.api import LIMITS, create_app
from uol.study.sessions import Sessions

Protection = Literal["proxy", "network"]
_SHORTEST_TOKEN = 12
_SWITCH_SECONDS = 0.001  # after which the thread that writes may interrupt others: participants wait for it


def check_access(host: str, token: str | None, protection: Protection | None) -> str:
    """The researcher's token, a random one if none was given; refuse an address that nobody said is protected."""
    if token is not None and not (token.isascii() and token.isprintable() and token.split() == [token]):
        raise CallError("--admin-token: use letters, digits and signs of ASCII without spaces")
    if is_loopback(host):
        return token or secrets.token_urlsafe(18)
    if protection is None:
        raise CallError(
            f"--host {host}: other machines can reach it; say how it is protected: --protected-by proxy (a proxy with "
            "TLS is in front) or --protected-by network (only a trusted network reaches it)"
        )
    if token is None or len(token) < _SHORTEST_TOKEN:
        raise CallError(
            f"--host {host}: set --admin-token, or UOL_ADMIN_TOKEN in the environment, with at least "
            f"{_SHORTEST_TOKEN} characters (openssl rand -hex 16)"
        )
    return token


def serve_study(
    sessions: Sessions, listening: socket.socket, host: str, admin_token: str, more_hosts: tuple[str, ...] = ()
) -> None:
    """Answer participants until the process is asked to end."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    log = Log()
    app = create_app(sessions, admin_token, allowed_hosts(host, more_hosts), log.write)
    try:
        run_app(app, listening, LIMITS, log)
    finally:
        sessions.store.close()
