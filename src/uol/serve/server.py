"""Running the service: uvicorn on one address, with a time limit for headers, ended without losing an answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from uol.errors import CallError
from uol.serve.guard import allowed_hosts, is_loopback
from uol.serve.limits import Limits
from uol.serve.log import Log, LogHandler

if TYPE_CHECKING:
    from uol.serve.api import Service

_BACKLOG = 256
_KEEP_ALIVE = 15  # seconds that a connection may stay open without a request


def check_access(host: str, token: str | None) -> None:
    """Refuse to serve other machines without a token, and a token that no header can hold."""
    if token is not None and not (token.isascii() and token.isprintable() and token.split() == [token]):
        raise CallError("--token: use letters, digits and signs of ASCII without spaces")
    if token is None and not is_loopback(host):
        raise CallError(f"--host {host}: other machines can reach it: set --token, or UOL_TOKEN in the environment")


def listen(host: str, port: int) -> socket.socket:
    """A socket on the address; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(_BACKLOG)  # now: who sees the address may ask at once
    except OSError as error:
        listening.close()
        raise CallError(f"{host}:{port}: cannot be used ({error.strerror or error}); choose another --port") from error
    return listening


def serve(
    service: Service,
    listening: socket.socket,
    host: str,
    token: str | None = None,
    more_hosts: tuple[str, ...] = (),
) -> None:
    """Score images until the process is asked to end."""
    from uol.serve.api import create_app

    log = Log()
    run_app(create_app(service, token, allowed_hosts(host, more_hosts), log.write), listening, service.limits, log)


def run_app(app: FastAPI, listening: socket.socket, limits: Limits, log: Log) -> None:
    """Answer requests until the process is asked to end; those that were accepted are answered first."""
    logging.getLogger().addHandler(LogHandler(log))
    config = uvicorn.Config(
        app,
        http=_protocol(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(limits.seconds + limits.body_seconds) + 5,
    )
    try:
        _Server(config).run(sockets=[listening])
    finally:
        log.close()


class _Server(uvicorn.Server):
    """Ends when it is asked to, as if its work were done: uvicorn would raise the signal again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        earlier = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)


def _protocol(limits: Limits) -> type[H11Protocol]:
    """HTTP with a time limit for the headers of a request, which uvicorn does not have."""

    class Protocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            if self._timer is None and (self.cycle is None or self.cycle.response_complete):
                self._wait_for_headers()
            super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _wait_for_headers(self) -> None:
            self._timer = self.loop.call_later(limits.header_seconds, self._check_headers, self.cycle)

        def _check_headers(self, earlier: Any) -> None:
            """Close the connection if no request has begun since the timer was set."""
            self._timer = None
            if self.cycle is earlier and not self.transport.is_closing():
                self.transport.close()

    return Protocol
