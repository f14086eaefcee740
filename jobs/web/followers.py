"""Following a job's log. A written line takes no version and rings no bell; so whenever the hub reads the feed (on a bell,
and once a second always) it also reads new lines, in one query for all who follow any log.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jobs.core import journal, reads
from jobs.core.access import Caller
from jobs.db import Reader, Row
from jobs.web import frames
from jobs.web.frames import Change
from jobs.web.watchers import Watcher

if TYPE_CHECKING:
    from jobs.web.seats import Seat

_PAGE = 500
_EVENT_ID = re.compile(r"([0-9]{1,18})(-done)?")


def resumed(last_event_id: str | None) -> tuple[int | None, bool]:
    """The line in a Last-Event-ID, and whether the end was seen as well; (None, False) for anything that we never sent."""
    match = _EVENT_ID.fullmatch(last_event_id or "")
    return (int(match[1]), bool(match[2])) if match else (None, False)


def done(job: Row, line: int) -> bytes:
    """The last event: where the job stands."""
    return frames.block("done", frames.compact(reads.summary(job)), f"{line}-done")


class LogFollower(Watcher):
    """The lines of one job after the id `line`, as events `line`; `done` when the job has ended and all were sent."""

    streaming = True

    def __init__(self, caller: Caller, current: Change, since: int, *, line: int, keepalive: float):
        super().__init__(caller, ("job", current.row.id), since, current)
        self.line = line
        self._keepalive = keepalive
        self._complete = False                   # all lines that are on disk were sent
        self._prefix = frames.retry(frames.RETRY)

    def start(self, now: float) -> None:
        self.due = now + self._keepalive

    def deliver(self, change: Change) -> None:
        if change.version is not None and change.version > self.current.version:
            self.current = change

    def hear(self, lines: list[Row], complete: bool) -> None:
        """New lines of this job, and whether there are no more for now."""
        self._complete = complete
        if lines:
            self.line = lines[-1].id
            self._send(b"".join(_event(line) for line in lines))

    def settle(self, now: float) -> None:
        if self.current.gone:
            self.seat.end()
        elif self.current.final and self._complete:
            self._send(done(self.current.row, self.line))
            self.seat.end()

    def wake(self, now: float) -> None:
        self.seat.send(frames.KEEP_ALIVE)
        self.due = now + self._keepalive

    def leave(self) -> None:
        self.seat.end()

    def _send(self, events: bytes) -> None:
        self.seat.send(self._prefix + events)
        self._prefix = b""


def tell(reader: Reader, followers: Iterable["Seat"]) -> tuple[set["Seat"], bool]:
    """Hand one page of new lines to those who follow; (who has heard, whether there is more). A slow reader waits his turn."""
    ready = {seat for seat in followers if not seat.busy}
    if not ready:
        return ready, False
    oldest = min(seat.watcher.line for seat in ready)
    rows = journal.of_jobs(reader, {seat.watcher.current.row.id for seat in ready}, oldest, _PAGE)
    by_job = defaultdict(list)
    for row in rows:
        by_job[row.job_id].append(row)
    more = len(rows) == _PAGE
    for seat in ready:
        lines = by_job[seat.watcher.current.row.id]
        seat.watcher.hear([line for line in lines if line.id > seat.watcher.line], complete=not more)
    return ready, more


def _event(line: Row) -> bytes:
    members = {"id": line.id, "attempt": line.attempt, "at": line.created_at, "line": line.line}
    return frames.block("line", frames.compact(members), line.id)
