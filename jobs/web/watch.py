"""What views call to let a client wait: streams of events and held requests.

Take `since = watch.position()` before reading the state that is handed in here; whatever changes after that is told.
Where the server parks sockets, none of them costs a thread; where it does not, each costs one, so fewer may wait.
"""

from collections.abc import Callable, Iterable

from flask import Response, request

from jobs.core import journal, reads
from jobs.core.access import Caller
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import frames, problems
from jobs.web.hub import Hub
from jobs.web.parking import LIVE, Parked
from jobs.web.seats import QueueSeat
from jobs.web.site import base_url, site
from jobs.web.watchers import FeedPoll, JobPoll, LogStream, Stream, Watcher, topic_of

is_terminal = reads.is_terminal
_NOTHING: Iterable[bytes] = iter(())  # the body of a HEAD whose GET tells no length
_CATCH_UP = 1000
_CATCH_UP_BYTES = 256 * 1024


def position() -> int:
    """The version up to which this process has heard of changes. Take it before reading the state."""
    return site().hub.position()


def moved_from(version: int) -> Callable[[Row], bool]:
    """The condition of a conditional long poll: the job is no longer at this version."""
    return lambda row: row.version != version


def stream_job(row: Row, caller: Caller, *, since: int, last_event_id: str | None = None) -> Response:
    """The events of one job: its state at once, then changes, `done` at last. 204 when the client has seen `done`."""
    hub = site().hub
    current = hub.change(row)
    seen = frames.cursor(last_event_id)
    if seen == row.version and current.final:
        return Response(status=204, headers={"Cache-Control": "no-store"})
    if current.final:
        return _event_stream(frames.retry(frames.RETRY) + current.block(named=False))
    if request.method == "HEAD":
        return _event_stream(_NOTHING)
    if _is_full(hub):
        return _event_stream(frames.retry(frames.RETRY_WHEN_FULL) + current.block(named=False))
    opening = [] if seen == row.version else [current]
    return _event_stream(Parked(hub, Stream(
        caller, ("job", row.id), since, seen=row.version, opening=opening, current=current,
        keepalive=site().settings.keepalive)))


def stream_jobs(caller: Caller, *, since: int, last_event_id: str | None = None) -> Response:
    """The events of all jobs that the caller may see, from now on or from the feed's cursor in Last-Event-ID.

    Who comes back after many changes gets a page of them and comes again for the rest.
    """
    hub = site().hub
    if request.method == "HEAD":
        return _event_stream(_NOTHING)
    if _is_full(hub):
        return _event_stream(frames.retry(frames.RETRY_WHEN_FULL) + frames.block("busy", "{}"))
    seen, missed = frames.cursor(last_event_id), []
    reader = site().db.read()
    latest = reads.latest(reader)
    if seen is not None and seen <= latest:
        missed = [hub.change(row) for row in reads.changes(reader, seen, _CATCH_UP, caller.scope)]
        page = _page(b"" if change.gone else change.block(named=True) for change in missed)
        if len(page) < len(missed) or len(missed) == _CATCH_UP:
            return _event_stream(frames.retry(frames.RETRY) + b"".join(page))
        seen = missed[-1].version if missed else seen
    else:
        seen = latest
    return _event_stream(Parked(hub, Stream(
        caller, topic_of(caller), since, seen=seen, opening=missed, keepalive=site().settings.keepalive)))


def follow_log(row: Row, caller: Caller, *, since: int, after: int = 0, last_event_id: str | None = None) -> Response:
    """The lines of a job's log after the line `after` (or Last-Event-ID), then new ones, `done` at last.

    A long log comes in pages, of which each ends the answer; 204 once the job is terminal and every line has been seen.
    """
    hub = site().hub
    if request.method == "HEAD":
        return _event_stream(_NOTHING)
    seen = frames.cursor(last_event_id)
    after = after if seen is None else seen
    lines = journal.read(site().db.read(), row.id, after, _CATCH_UP)
    current = hub.change(row)
    if current.final and not lines and seen is not None:
        return Response(status=204, headers={"Cache-Control": "no-store"})
    page = _page(map(frames.line, lines))
    opening = b"".join([frames.retry(frames.RETRY), *page]) if page else b""
    if len(page) < len(lines) or len(lines) == _CATCH_UP:
        return _event_stream(opening)
    if current.final:
        return _event_stream(opening + frames.log_end(row, lines[-1].id if lines else after))
    if _is_full(hub):
        return _event_stream(b"".join([frames.retry(frames.RETRY_WHEN_FULL), *page, *([] if page else [frames.block("busy", "{}")])]))
    return _event_stream(Parked(hub, LogStream(
        caller, current, since, after=lines[-1].id if lines else after, opening=opening, keepalive=site().settings.keepalive)))


def poll_job(row: Row, caller: Caller, *, since: int, wait: float, until: Callable[[Row], bool],
             respond: Callable[[Row], Response], refuse: bool = True,
             gone: Callable[[], Response] | None = None) -> Response:
    """Answer `respond(row)` as soon as `until(row)` holds, with the job's current row after `wait` seconds at the latest.

    `respond` is called on the hub's thread: no request context, no database, no exceptions. A job that is purged meanwhile
    is answered by `gone`. When too many wait already, Problem `too-many-watchers`, or an answer at once if not `refuse`.
    """
    if wait <= 0 or request.method == "HEAD" or until(row):
        return respond(row)
    hub = site().hub
    if _is_full(hub):
        return _turn_away() if refuse else respond(row)
    members = Problem("gone").members(base_url())

    def respond_or_gone(row: Row) -> Response:
        if row.purged_at is None:
            return respond(row)
        return gone() if gone else problems.document(members)

    return _hold(hub, JobPoll(caller, hub.change(row), since, wait=wait, until=until, respond=respond_or_gone))


def poll_changes(rows: list[Row], caller: Caller, *, since: int, wait: float, limit: int,
                 respond: Callable[[list[Row]], Response]) -> Response:
    """Answer `respond(rows)` as soon as jobs that the caller may see have changed; with [] after `wait` seconds.

    `rows` is what was read for the caller's cursor; `since` is that cursor where it is ahead of the position. `respond` gets at most `limit` rows and one more, and is called as in `poll_job`.
    """
    if rows or wait <= 0 or request.method == "HEAD":
        return respond(rows)
    hub = site().hub
    if _is_full(hub):
        return _turn_away()
    return _hold(hub, FeedPoll(caller, topic_of(caller), since, wait=wait, limit=limit, respond=respond))


def _hold(hub: Hub, watcher: Watcher) -> Response:
    if request.environ.get(LIVE):
        placeholder = Response(Parked(hub, watcher), direct_passthrough=True)
        del placeholder.headers["Content-Type"]
        return placeholder
    seat = QueueSeat(watcher)
    hub.join(seat)
    return seat.take() or _turn_away()  # nothing: the key was revoked meanwhile


def _event_stream(body: bytes | Iterable[bytes]) -> Response:
    response = Response(body, content_type="text/event-stream; charset=utf-8", direct_passthrough=isinstance(body, Parked))
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _page(blocks: Iterable[bytes]) -> list[bytes]:
    """As many events as one answer should hold; one at least, if there is any."""
    page, length = [], 0
    for block in blocks:
        page.append(block)
        length += len(block)
        if length > _CATCH_UP_BYTES:
            break
    return page


def _is_full(hub: Hub) -> bool:
    return hub.is_full(parking=bool(request.environ.get(LIVE)))


def _turn_away() -> Response:
    raise Problem("too-many-watchers", headers={"Retry-After": "5"})
