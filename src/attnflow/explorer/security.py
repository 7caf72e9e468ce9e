"""Access to the server: only pages that it served itself, requested by one of its host names."""

from typing import Any
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse

LOCAL = ("127.0.0.1", "localhost", "[::1]")
HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)  # fmt: skip


class HostCheck:
    """Middleware that checks Host and, for WebSockets, Origin, and adds security headers.

    The check of Host refuses foreign pages that reach this server by DNS rebinding; the check of Origin refuses
    connections from other pages in the same browser.
    """

    def __init__(self, app: Any, names: tuple[str, ...]):
        self._app, self._names = app, names

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on an allowed request; refuse others."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        sentence = refusal(headers.get("host", ""), headers.get("origin"), self._names, scope["type"] == "websocket")
        if sentence is None:
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)
        elif scope["type"] == "http":
            await PlainTextResponse(sentence, 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": sentence[:120]})


def refusal(host: str, origin: str | None, names: tuple[str, ...], is_websocket: bool) -> str | None:
    """The reason for which a request is refused; None if it is allowed.

    Examples
    --------
    >>> refusal("localhost:8000", "http://localhost:8000", LOCAL, True)
    >>> refusal("evil.example", None, LOCAL, False)
    'The explorer is not served under the name evil.example. Open the address that it printed.'
    """
    if name_of(host) not in names:
        asked = name_of(host) or "that was requested"
        return f"The explorer is not served under the name {asked}. Open the address that it printed."
    if is_websocket and _address_in(origin) != host.lower():
        return "Only the explorer's own page may connect. Open the address that it printed."
    return None


def name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    host = host.lower()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _address_in(origin: str | None) -> str | None:
    """Host and port in an Origin header; None if it has none or cannot be read."""
    try:
        return None if origin is None else urlsplit(origin).netloc.lower()
    except ValueError:  # such as http://[::1
        return None


def _with_headers(send: Any) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        await send(message)

    return sending
