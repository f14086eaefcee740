"""Rate limits per key: a bucket that fills evenly, kept by each web process for itself (RateLimit fields, draft-11)."""

import math
import threading
from collections.abc import Callable
from typing import TypeVar

from flask import Flask, Response, current_app, g, request

from jobs import clock
from jobs.errors import Problem
from jobs.web import auth
from jobs.web.site import site

WINDOW = 60  # seconds
_POLL_COST = 0.2
_MOST_KEYS = 10_000
_MOST_DELAYED = 100  # requests of one key that may be late at once
_LONGEST_DELAY = 10  # seconds

View = TypeVar("View", bound=Callable)


class Buckets:
    """One bucket for each key, or each signed address; a full one allows `quota` requests at once."""

    def __init__(self, quota: int):
        self._quota = quota
        self._levels: dict[int | str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: int | str, cost: float) -> tuple[bool, int, int]:
        """(allowed, requests left, seconds until the bucket is full again, or until the next is allowed)."""
        now, rate = clock.monotonic(), self._quota / WINDOW
        with self._lock:
            if len(self._levels) > _MOST_KEYS:
                self._levels.clear()
            level, at = self._levels.get(key, (float(self._quota), now))
            level = min(self._quota, level + (now - at) * rate)
            allowed = level >= cost
            level -= cost if allowed else 0
            self._levels[key] = (level, now)
        wait = (self._quota - level) / rate if allowed else (1 - level) / rate
        return allowed, int(level), math.ceil(wait)

    def borrow(self, key: int | str, cost: float) -> float | None:
        """Take from what comes in later: seconds until it is there. None when the key has borrowed too much already."""
        rate = self._quota / WINDOW
        with self._lock:
            level, at = self._levels[key]
            level -= cost
            if level < -min(_MOST_DELAYED * cost, _LONGEST_DELAY * rate):
                return None
            self._levels[key] = (level, at)
        return -level / rate


def delays(view: View) -> View:
    """Mark a view that over the limit answers late instead of refusing; it waits for `delay()` seconds by itself."""
    view.delays = True
    return view


def delay() -> float:
    """Seconds by which the answer to this request is late."""
    return g.get("delay", 0.0)


def register(app: Flask) -> None:
    """Count every request that bears a key; 429 above the limit."""
    quota = app.extensions["accepted"].settings.rate_limit
    if quota:
        app.extensions["accepted.limits"] = Buckets(quota)
        app.before_request(_count)
        app.after_request(_tell)


def _count() -> None:
    by_form = request.blueprint == "ui" and request.method == "POST"  # pages are read at will, but forms make jobs
    if not (auth.optional_caller() if by_form else request.method != "OPTIONS" and g.get("caller")):
        return
    cheap = request.method in ("GET", "HEAD") and (
        "If-None-Match" in request.headers or "wait" in request.args or "Prefer" in request.headers)
    key, cost = auth.caller().key_id or request.path, _POLL_COST if cheap else 1
    allowed, g.left, g.reset = _buckets().take(key, cost)
    if not allowed and getattr(current_app.view_functions.get(request.endpoint), "delays", False):
        g.delay = _buckets().borrow(key, cost)
        allowed = g.delay is not None
    if not allowed:
        raise Problem("too-many-requests", headers={"Retry-After": str(max(1, g.reset))})


def _tell(response: Response) -> Response:
    if "left" in g:
        response.headers["RateLimit-Policy"] = f'"default";q={site().settings.rate_limit};w={WINDOW}'
        response.headers["RateLimit"] = f'"default";r={g.left};t={g.reset}'
    return response


def _buckets() -> Buckets:
    """The buckets of this process."""
    return current_app.extensions["accepted.limits"]
