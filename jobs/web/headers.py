"""Headers that every answer bears: against sniffing and framing, and for pages of other origins (CORS)."""

from flask import Flask, Response, request

from jobs.web.site import site

CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; "
       "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
_EXPOSED = ("Location, Operation-Location, Content-Location, Retry-After, ETag, Link, Preference-Applied, "
            "Idempotency-Replayed, RateLimit, RateLimit-Policy, X-Request-Id, Azure-AsyncOperation")
_ALLOWED = ("Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, Range, "
            "traceparent, X-Request-Id")
_METHODS = "GET, HEAD, POST, PATCH, DELETE, OPTIONS"


def register(app: Flask) -> None:
    """Add the headers to every answer, and answer preflights."""
    app.before_request(_preflight)
    app.after_request(_protect)
    app.after_request(_share)


def _protect(response: Response) -> Response:
    if response.status_code == 204:     # Flask's default type describes nothing
        response.headers.pop("Content-Type", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers.setdefault("Referrer-Policy", "same-origin")
    if response.mimetype == "text/html":
        response.headers.setdefault("Content-Security-Policy", CSP)
    return response


def _preflight() -> Response | None:
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers or not _allowed_origin():
        return None
    response = Response(status=204)
    response.headers.update({
        "Access-Control-Allow-Methods": _METHODS, "Access-Control-Allow-Headers": _ALLOWED,
        "Access-Control-Max-Age": "600"})
    return response


def _share(response: Response) -> Response:
    if not site().settings.cors_origins:
        return response
    response.vary.add("Origin")
    origin = _allowed_origin()
    if origin:  # a key travels in Authorization, which needs no credentials mode; cookies never cross origins
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = _EXPOSED
    return response


def _allowed_origin() -> str | None:
    origin, allowed = request.headers.get("Origin"), site().settings.cors_origins
    if not origin or not allowed or request.path.startswith("/ui"):
        return None
    return "*" if "*" in allowed else origin if origin in allowed else None
