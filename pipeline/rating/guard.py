"""What holds for every request and response: headers, body size, where a write may come from."""

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_LIMIT = 64 * 1024
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_SITES = ("same-origin", "none")
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "img-src 'self'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware around the whole application, its error pages included.

    A write must be JSON (415), come from the page's own origin where the browser says from where (403),
    and be no larger than 64 KiB (413), whether or not its length is announced.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _refusal(scope) or self._app
        await answer(scope, _limited(receive), _with_headers(send))


def trusted(app: ASGIApp, hosts: Sequence[str]) -> ASGIApp:
    """Answer only requests to these host names: another name that points here reaches nothing."""
    return TrustedHostMiddleware(app, allowed_hosts=list(hosts), www_redirect=False)


def _refusal(scope: Scope) -> JSONResponse | None:
    headers = Headers(scope=scope)
    if _announced(headers) > BODY_LIMIT:
        return _refused(413, f"A request may hold {BODY_LIMIT} bytes.")
    if scope["method"] in SAFE_METHODS:
        return None
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _refused(415, "Send application/json.")
    if not _from_own_page(headers):
        return _refused(403, "This request came from another site.")
    return None


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _from_own_page(headers: Headers) -> bool:
    # A browser's own word comes first: behind a proxy, Host may be another name than the page's.
    if site := headers.get("sec-fetch-site"):
        return site in OWN_SITES
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


def _limited(receive: Receive) -> Receive:
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > BODY_LIMIT:
            raise HTTPException(413, f"A request may hold {BODY_LIMIT} bytes.")
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return with_headers
