"""The headers that make polling cheap and honest: ETag, 304, Retry-After, Expires (RFC 9110, 9111, 8594).

Everything here is pure, so that the hub's thread can answer a parked request without Flask's context.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime

from flask import Response, request
from werkzeug.http import parse_etags

from jobs import clock
from jobs.core import reads
from jobs.core.states import Status
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import backlog

REVISION = 1       # of the representation: raised when the same version would render to other bytes
MAX_WAIT = 50      # seconds
_MAX_RETRY_AFTER = 30
_FARTHEST = 3600


@dataclass(frozen=True)
class Asked:
    """What a request wants, taken out of it so that it can be answered later and elsewhere."""

    base_url: str
    if_none_match: str | None
    wait: float                 # seconds to hold, 0: not at all
    prefer_applied: str | None  # the value of Preference-Applied
    waiting: Mapping[str, int] = field(default_factory=dict)  # queue → jobs that wait in it

    @classmethod
    def by_request(cls, base_url: str, default_wait: float = 0) -> "Asked":
        """Read `wait` from the query or from Prefer (RFC 7240); Problem 400 when the query's is no number.

        `respond-async` in Prefer overrules `default_wait`.
        """
        preferred = _preferences(request.headers.getlist("Prefer"))
        wait, applied = _query_wait(request.args.getlist("wait")), None
        if wait is None and "wait" in preferred:
            wait = float(preferred["wait"])
            applied = f"wait={min(wait, MAX_WAIT):g}"
        elif wait is None and "respond-async" in preferred and default_wait:
            wait, applied = 0, "respond-async"
        held = min(default_wait if wait is None else wait, MAX_WAIT)
        return cls(base_url, request.headers.get("If-None-Match"), held, applied, backlog.lengths())


def etag(job: Row, form: str = "job") -> str:
    """The strong validator of one form of the job: equal tags mean equal bytes."""
    return f'"{job.version}-{form}{REVISION}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Weak comparison against a list or `*` (RFC 9110, section 13.1.2)."""
    if not if_none_match:
        return False
    return parse_etags(if_none_match).contains_weak(tag.strip('"'))


def if_match() -> Callable[[Row], None]:
    """The request's If-Match as a check to be made inside the transaction, on whatever thread that runs.

    Problem 412 when it names another version (strong comparison, section 13.1.1).
    """
    header = request.headers.get("If-Match")

    def check(job: Row) -> None:
        if header is not None and not parse_etags(header).contains(etag(job).strip('"')):
            raise Problem("precondition-failed", f"The job is at version {job.version} now.")
    return check


def job(row: Row, asked: Asked) -> Response:
    """200 with the job, or 304 when the client has these bytes. Needs no request."""
    return view(row, asked, etag(row), lambda: reads.render(row, asked.base_url))


def view(row: Row, asked: Asked, tag: str, render: Callable[[], str]) -> Response:
    """Any representation of the job with the headers of a poll; `render` is asked for only when needed."""
    fresh = matches(asked.if_none_match, tag)
    response = Response("" if fresh else render(), 304 if fresh else 200, content_type="application/json")
    if fresh:
        del response.headers["Content-Type"]
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["Vary"] = "Prefer, Authorization, Cookie"
    if asked.prefer_applied:
        response.headers["Preference-Applied"] = asked.prefer_applied
    response.headers.update(pace(row, asked.waiting))
    return response


def pace(row: Row, waiting: Mapping[str, int] | None = None) -> dict[str, str]:
    """When to ask again: Retry-After while active; the end of retention when terminal."""
    if reads.is_terminal(row):
        end = http_date(clock.parse(row.expires_at)) if row.expires_at else None
        return {"Expires": end, "Sunset": end} if end else {}
    return {"Retry-After": str(retry_after(row, waiting))}


def retry_after(row: Row, waiting: Mapping[str, int] | None = None) -> int:
    """Whole seconds until a poll is worth while: until the job may start, until its eta, else the more, the longer it
    has taken so far and the more jobs wait in its queue (`waiting`)."""
    starts = row.next_attempt_at or row.not_before
    if row.status == Status.QUEUED and starts and clock.seconds_until(starts) > 0:
        return min(_FARTHEST, math.ceil(clock.seconds_until(starts)))
    if row.eta:
        seconds = clock.seconds_until(row.eta)
    else:
        ahead = max(0, (waiting or {}).get(row.queue, 0) - 1) if row.status == Status.QUEUED else 0
        seconds = (ahead - clock.seconds_until(row.started_at or row.created_at)) / 10
    return max(1, min(_MAX_RETRY_AFTER, math.ceil(seconds)))


def http_date(instant: datetime) -> str:
    """IMF-fixdate (RFC 9110, section 5.6.7)."""
    return format_datetime(instant, usegmt=True)


def _query_wait(values: list[str]) -> float | None:
    if not values:
        return None
    try:
        seconds = float(values[-1])
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise Problem("bad-parameter", f"wait is a number of seconds, at most {MAX_WAIT}.")
    return seconds


def _preferences(headers: list[str]) -> dict[str, str]:
    """The preferences that are honoured, the first of each; others are ignored, as RFC 7240 demands."""
    found: dict[str, str] = {}
    for preference in ",".join(headers).split(","):
        name, _, value = (part.strip() for part in preference.split(";")[0].partition("="))
        name, value = name.lower(), value.strip('"')
        if name == "respond-async" or (name == "wait" and value.isascii() and value.isdigit()):
            found.setdefault(name, value)
    return found
