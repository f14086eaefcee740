"""What a waiting client waits for. No sockets here: the hub tells a watcher what happened, the watcher tells its seat
what to send.

The hub calls, always on its own thread, `start` once, then `deliver` for each change and `settle` after each batch,
`wake` when the time in `due` has come, and `leave` when the server stops. Times are monotonic seconds.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from jobs.core.access import Caller
from jobs.db import Row
from jobs.web import frames
from jobs.web.frames import Change

if TYPE_CHECKING:
    from jobs.web.seats import Seat

FRAME_INTERVAL = 0.1
"""Seconds between two sendings to one stream; what comes in between is merged, the latest always comes."""

Topic = tuple[str, int | str | None]
"""("job", id), ("owner", owner), or EVERYTHING."""
EVERYTHING: Topic = ("owner", None)


def topic_of(caller: Caller) -> Topic:
    """The jobs that a caller hears of: all of them, or those of one owner."""
    return ("owner", caller.scope)


class Watcher:
    """The common part. `since` is the feed's position from before the caller's state was read: what came later is news."""

    streaming = False

    __slots__ = ("key_id", "session", "current", "topic", "since", "due", "seat")

    def __init__(self, caller: Caller, topic: Topic, since: int, current: Change | None = None):
        self.key_id, self.session = caller.key_id, caller.session
        self.current = current
        self.topic = topic
        self.since = since
        self.due = float("inf")
        self.seat: "Seat | None" = None

    def start(self, now: float) -> None:
        """The seat is there; send what is to be sent at once and set `due`."""

    def deliver(self, change: Change) -> None:
        """A change of a watched job. May come twice, and may be known already."""

    def settle(self, now: float) -> None:
        """A batch of changes is complete."""

    def wake(self, now: float) -> None:
        """The time in `due` has come."""

    def leave(self) -> None:
        """The server stops: bring it to a good end at once."""


class Stream(Watcher):
    """A stream of events about one job, or about many (`named`: each event tells its job).

    `seen` is the version up to which the client knows everything, `opening` what it is told first.
    """

    __slots__ = ("named", "_seen", "_keepalive", "_pending", "_prefix", "_next_frame", "_silent_until")
    streaming = True

    def __init__(self, caller: Caller, topic: Topic, since: int, *, seen: int, opening: Iterable[Change],
                 keepalive: float, current: Change | None = None):
        super().__init__(caller, topic, since, current)
        self.named = topic[0] != "job"
        self._seen = seen
        self._keepalive = keepalive
        self._pending = {change.row.id: change for change in opening}
        self._prefix = frames.retry(frames.RETRY)
        self._next_frame = 0.0

    def start(self, now: float) -> None:
        self.due = self._silent_until = now + self._keepalive
        self.current = None  # the hub knows it now; ten thousand streams need not keep its row
        self.settle(now)

    def deliver(self, change: Change) -> None:
        job = change.row.id
        if change.version is None:
            waiting = self._pending.get(job)
            if waiting is None or waiting.version is None:  # a row that waits has an id and must not be lost
                self._pending[job] = change
        elif change.version > self._seen:
            self._pending[job] = change

    def settle(self, now: float) -> None:
        if not self._pending:
            return
        if now < self._next_frame:
            self.due = min(self.due, self._next_frame)
        else:
            self._send(now)

    def wake(self, now: float) -> None:
        self.settle(now)
        if now >= self._silent_until:
            self.seat.send(frames.KEEP_ALIVE)
            self._silent_until = now + self._keepalive
        self.due = max(self._next_frame, now) if self._pending else self._silent_until

    def leave(self) -> None:
        self._send(0.0)
        self.seat.end()

    def _send(self, now: float) -> None:
        # All that waits at once, in the order of versions: whoever resumes by the last id has missed nothing before it.
        changes = sorted(self._pending.values(), key=lambda change: change.version or 0)
        self._pending.clear()
        self._next_frame, self.due = now + FRAME_INTERVAL, now + self._keepalive
        self._silent_until = self.due
        self._seen = max([self._seen, *(change.version or 0 for change in changes)])
        blocks = [change.block(self.named) for change in changes if not change.gone]
        if blocks:
            self.seat.send(b"".join([self._prefix, *blocks]))
            self._prefix = b""
        if not self.named and any(change.final for change in changes):
            self.seat.end()


class LogStream(Watcher):
    """A stream of the lines of one job's log; `after` is the last line that the client has, `opening` what it gets first."""

    __slots__ = ("after", "_opening", "_keepalive", "_final")
    streaming = True

    def __init__(self, caller: Caller, current: Change, since: int, *, after: int, opening: bytes, keepalive: float):
        super().__init__(caller, ("job", current.row.id), since)
        self.after = after
        self._opening, self._keepalive = opening, keepalive
        self._final: Change | None = None

    def start(self, now: float) -> None:
        self._send(self._opening, now)
        self._opening = b""

    def deliver(self, change: Change) -> None:
        if change.final:
            self._final = change

    def read(self, lines: list[Row], upto: int, complete: bool, now: float) -> None:
        """Lines of this job up to the line `upto` of all jobs; `complete` when there are no more for the moment."""
        news = b"".join(frames.line(line) for line in lines if line.id > self.after)
        self.after = max(self.after, upto)
        if news:
            self._send(news, now)
        if self._final and complete:
            self.seat.send(frames.log_end(self._final.row, self.after))
            self.seat.end()

    def wake(self, now: float) -> None:
        self._send(frames.KEEP_ALIVE, now)

    def leave(self) -> None:
        self.seat.end()

    def _send(self, data: bytes, now: float) -> None:
        if data:
            self.seat.send(data)
        self.due = now + self._keepalive


class JobPoll(Watcher):
    """A request about one job that is held until `until(row)`, or for `wait` seconds; then `respond(row)` answers it."""

    __slots__ = ("_wait", "_until", "_respond")

    def __init__(self, caller: Caller, current: Change, since: int, *, wait: float, until: Callable[[Row], bool],
                 respond: Callable[[Row], Any]):
        super().__init__(caller, ("job", current.row.id), since, current)
        self._wait, self._until, self._respond = wait, until, respond

    def start(self, now: float) -> None:
        self.due = now + self._wait

    def deliver(self, change: Change) -> None:
        if change.version is not None and change.version > self.current.version:
            self.current = change

    def settle(self, now: float) -> None:
        if self.current.gone or self._until(self.current.row):
            self.leave()

    def wake(self, now: float) -> None:
        self.leave()

    def leave(self) -> None:
        self.seat.answer(self._respond(self.current.full))


class FeedPoll(Watcher):
    """A request for changes after `since` that is held until there are some, or for `wait` seconds.

    `respond` gets the changed rows in the order of versions, at most `limit` and one more that tells that there are more.
    """

    __slots__ = ("_wait", "_limit", "_respond", "_rows")

    def __init__(self, caller: Caller, topic: Topic, since: int, *, wait: float, limit: int,
                 respond: Callable[[list[Row]], Any]):
        super().__init__(caller, topic, since)
        self._wait, self._limit, self._respond = wait, limit, respond
        self._rows: dict[int, Row] = {}

    def start(self, now: float) -> None:
        self.due = now + self._wait

    def deliver(self, change: Change) -> None:
        if change.version is not None and change.version > self.since:
            self._rows[change.row.id] = change.row

    def settle(self, now: float) -> None:
        if self._rows:
            rows = sorted(self._rows.values(), key=lambda row: row.version)
            self.seat.answer(self._respond(rows[:self._limit + 1]))

    def wake(self, now: float) -> None:
        self.seat.answer(self._respond([]))

    def leave(self) -> None:
        self.seat.answer(self._respond([]))
