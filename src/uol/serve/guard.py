"""What surrounds every request: who may ask, headers that keep a browser safe, one line in the log, figures."""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uol.serve.metrics import RequestMetrics

OPEN = ("/healthz", "/readyz")  # answered without a token; the page's files are too
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self' blob: data:; connect-src 'self'; "
    "media-src 'self' blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
IMAGES = "uol.images"  # the key in a request's scope of how many images it had


def problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a refused request."""
    return JSONResponse({"error": text}, status, headers)


class Guard:
    """Refuses strangers, adds headers, logs and counts; `public` paths need no token."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: RequestMetrics,
        token: str | None = None,
        hosts: frozenset[str] | None = None,
        public: frozenset[str] = frozenset(),
        log: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._app, self._metrics = app, metrics
        self._token, self._hosts, self._public = token, hosts, public
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(scope=message), scope["path"])
            await send(message)

        failure: str | None = None
        try:
            await (self._refusal(scope) or self._app)(scope, receive, send_guarded)
        except Exception as error:
            failure = type(error).__name__  # not its text, which may name an image
            if status == 0:
                await problem(500, f"unexpected {failure}")(scope, receive, send_guarded)
        finally:
            self._record(scope, status, time.perf_counter() - began, failure)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
            return problem(421, "this address is not served here; --allow-host NAME adds one")
        if scope["method"] == "POST" and _from_another_site(headers):
            return problem(403, "requests from other sites are refused")
        if self._token is None or scope["path"] in self._public:
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        wrong = "this token is wrong" if kind.lower() == "bearer" else "a token is required"
        return problem(
            401, f"{wrong}: send the one of `uol serve` as Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
        )

    def _record(self, scope: Scope, status: int, seconds: float, failure: str | None) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        line: dict[str, Any] = {
            "method": scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other",
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        if IMAGES in scope:
            line["images"] = scope[IMAGES]
        if failure is not None:
            line["failure"] = failure
        if self._log is not None:
            self._log(line)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def allowed_hosts(host: str, more: tuple[str, ...] = ()) -> frozenset[str] | None:
    """The names that requests may ask for, None for any.

    On a loopback address only loopback names: a page elsewhere whose name resolves to this machine is refused.
    """
    if not is_loopback(host):
        return None
    return frozenset({"localhost", "127.0.0.1", "::1", host.strip("[]").lower(), *(name.lower() for name in more)})


def _host_name(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _add_headers(headers: MutableHeaders, path: str) -> None:
    for name, value in _HEADERS.items():
        headers[name] = value
    # Swagger UI writes style attributes; the project's page has none.
    headers["Content-Security-Policy"] = _CSP.format(style=" 'unsafe-inline'" if path.startswith("/docs") else "")


def _from_another_site(headers: Headers) -> bool:
    """Whether a page of another address sent a request: browsers say so in one or the other header."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")
