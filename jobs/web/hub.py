"""The hub: one event loop per web process that keeps every waiting client, so that none of them costs a thread.

It hears the doorbell and reads the feed of changes, one query for all watchers each time: when the bell rings, when the
subscription was renewed, and once a second always. A bell carries no truth, so a lost one costs a second at most.
"""

import heapq
import itertools
import logging
import os
import selectors
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from jobs.clock import monotonic
from jobs.core import access, reads
from jobs.db import Database, Row
from jobs.doorbell import Doorbell
from jobs.errors import StorageUnavailable
from jobs.settings import Settings
from jobs.web import followers
from jobs.web.followers import LogFollower
from jobs.web.frames import Change
from jobs.web.seats import Seat, SocketSeat
from jobs.web.watchers import EVERYTHING, Topic

_TICK = 1.0
_READ_INTERVAL = 0.01     # under a storm of bells, that many seconds between two reads of the feed
_PAGE = 500
_PATIENCE = 0.5           # seconds that slow readers get when the server stops
_MOST_KNOWN = 10_000

log = logging.getLogger(__name__)


class Hub:
    """Keeps waiting clients. `position`, `join`, `left` from another thread, and `leave` may be called at any time."""

    def __init__(self, db: Database, doorbell: Doorbell, settings: Settings):
        self._db, self._doorbell, self._settings = db, doorbell, settings
        self._starting = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._pid: int | None = None
        self._position = 0
        self._seats: set[Seat] = set()
        self._topics: defaultdict[Topic, set[Seat]] = defaultdict(set)
        self._followers: set[Seat] = set()      # of logs
        self._alarms: list[tuple[float, int, Seat]] = []
        self._count = itertools.count()
        self._inbox: deque[Callable[[], None]] = deque()
        self._hints: dict[int, dict[str, Any]] = {}
        self._known: dict[int, Change] = {}     # active jobs as last seen, to which fast progress is added
        self._read_from: int | None = None      # where the next read of the feed starts; None: nothing to read
        self._next_tick = self._next_read = 0.0
        self._leaving_until: float | None = None

    # From any thread

    def position(self) -> int:
        """The version up to which changes have been heard of; the first call in a process starts the hub.

        Take it, then read the state, then join with it as `since`: whatever happened in between is told.
        """
        if self._pid != os.getpid():
            with self._starting:
                if self._pid != os.getpid():
                    self._start()
        return self._position

    def is_full(self, cap: int | None = None) -> bool:
        """Whether as many clients wait as one process may keep (or as `cap` says)."""
        return self._pid == os.getpid() and len(self._seats) >= (self._settings.max_watchers if cap is None else cap)

    def join(self, seat: Seat) -> None:
        """Take a seat in; its watcher is started at once."""
        self.position()
        self._call(partial(self._join, seat))

    def dismiss(self, seat: Seat) -> None:
        """Its client has gone."""
        self._call(seat.drop)

    def leave(self) -> None:
        """The server stops: streams end, polls are answered, and so is everyone who joins later. Never blocks."""
        if self._pid == os.getpid():
            self._call(self._leave)

    def change(self, row: Row) -> Change:
        """A row of the feed as news. The whole row, where it is needed, is read on the thread that needs it."""
        return Change(row, self._settings.base_url, load=lambda job_id: reads.get(self._db.read(), job_id))

    def _call(self, action: Callable[[], None]) -> None:
        self._inbox.append(action)
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            pass  # it has been woken already

    # The threads

    def _start(self) -> None:
        self._reset()  # what a parent process left here is not ours
        self._position = reads.latest(self._db.read())
        self.selector = selectors.DefaultSelector()
        self._waker, woken = socket.socketpair()
        self._waker.setblocking(False)
        woken.setblocking(False)
        self.selector.register(woken, selectors.EVENT_READ)
        threading.Thread(target=self._run, name="hub", daemon=True).start()
        threading.Thread(target=self._listen, name="hub-ear", daemon=True).start()
        self._pid = os.getpid()

    def _listen(self) -> None:
        # A thread of its own: a Redis that hangs while connecting must not hold up the loop.
        bell = self._doorbell.listen()
        while True:
            message = bell.get(_TICK)
            if message is not None and self._seats:
                self._call(partial(self._hear, message))

    def _run(self) -> None:
        while True:
            try:
                self._turn()
            except StorageUnavailable as error:
                log.warning("The feed cannot be read at the moment: %s", error)
                self._next_read = monotonic() + _TICK
            except Exception:
                log.exception("The hub stumbled and goes on")
                self._next_read = monotonic() + _TICK

    def _turn(self) -> None:
        for key, mask in self.selector.select(max(0.0, self._next_event() - monotonic())):
            if key.data is None:
                key.fileobj.recv(4096)
            else:
                self._guard(key.data, key.data.ready, mask)
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()
        now = monotonic()
        if now >= self._next_tick:
            self._next_tick = now + _TICK
            self._tick()
        if self._read_from is not None and now >= self._next_read:
            self._next_read = now + _READ_INTERVAL
            self._read_feed(now)
        if self._hints and self._read_from is None:  # never before the row that they build upon
            self._pass_hints(now)
        self._ring_alarms(now)
        if self._leaving_until is not None and now >= self._leaving_until:
            for seat in list(self._seats):
                seat.drop()

    def _next_event(self) -> float:
        return min(self._next_tick, self._alarms[0][0] if self._alarms else self._next_tick,
                   self._next_read if self._read_from is not None else self._next_tick)

    # What happens on the hub's thread

    def _join(self, seat: Seat) -> None:
        now = monotonic()
        seat.hub = self
        self._seats.add(seat)
        self._topics[seat.watcher.topic].add(seat)
        if isinstance(seat, SocketSeat):
            self.selector.register(seat.sock, selectors.EVENT_READ, seat)
        if seat.watcher.current:
            self._remember(seat.watcher.current)
        if seat.watcher.since < self._position or len(self._seats) == 1:  # the first comes after bells that nobody heard
            self._want(seat.watcher.since)
        if isinstance(seat.watcher, LogFollower):
            self._followers.add(seat)
            self._want(self._position)
        self._guard(seat, seat.watcher.start, now)
        self._guard(seat, seat.flush)
        if self._leaving_until is not None:
            self._guard(seat, seat.watcher.leave)
        self._set_alarm(seat)

    def left(self, seat: Seat) -> None:
        """A seat has become free; the seat itself says so, once."""
        self._seats.remove(seat)
        self._followers.discard(seat)
        sitting = self._topics[seat.watcher.topic]
        sitting.remove(seat)
        if not sitting:
            del self._topics[seat.watcher.topic]
        if isinstance(seat, SocketSeat):
            self.selector.unregister(seat.sock)

    def _leave(self) -> None:
        self._leaving_until = monotonic() + _PATIENCE
        self._alarms.append((self._leaving_until, next(self._count), None))
        heapq.heapify(self._alarms)
        for seat in list(self._seats):
            self._guard(seat, seat.watcher.leave)

    def _hear(self, message: dict[str, Any]) -> None:
        version = message.get("version")
        if version is None and "resubscribed" not in message:
            self._hints[int(message["id"])] = message
        elif version is None or version > self._position:
            self._want(self._position)

    def _want(self, since: int) -> None:
        self._read_from = since if self._read_from is None else min(self._read_from, since)

    def _tick(self) -> None:
        if not self._seats:
            self._known.clear()
            self._position = max(self._position, reads.latest(self._db.read()))
            return
        self._want(self._position)
        key_ids = {seat.watcher.key_id for seat in self._seats}
        live = access.live_keys(self._db.read(), key_ids)
        for seat in [seat for seat in self._seats if seat.watcher.key_id not in live]:
            seat.drop()

    def _read_feed(self, now: float) -> None:
        reader = self._db.read()
        full_page, more_lines = True, False
        while full_page:
            rows = reads.changes(reader, self._read_from, _PAGE)
            touched: set[Seat] = set()
            for row in rows:
                touched |= self._tell(self.change(row))
            if rows:
                self._read_from = rows[-1].version
                self._position = max(self._position, self._read_from)
            if self._followers:
                heard, more_lines = followers.tell(reader, self._followers)
                touched |= heard
            self._settle(touched, now)
            full_page = len(rows) == _PAGE
        self._read_from = self._position if more_lines else None

    def _tell(self, change: Change) -> set[Seat]:
        self._remember(change)
        row, touched = change.row, set()
        for topic in (("job", row.id), ("owner", row.owner), EVERYTHING):
            for seat in self._topics.get(topic, ()):
                seat.watcher.deliver(change)
                touched.add(seat)
        return touched

    def _remember(self, change: Change) -> None:
        known = self._known.pop(change.row.id, None)
        if known and known.row.version > change.row.version:
            change = known
        if not change.final:
            self._known[change.row.id] = change
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def _pass_hints(self, now: float) -> None:
        hints, self._hints = self._hints, {}
        touched: set[Seat] = set()
        for job_id, message in hints.items():
            known = self._known.get(job_id)
            change = known and known.hastened(message)
            if change:
                touched |= self._tell(change)
        self._settle(touched, now)

    def _settle(self, touched: set[Seat], now: float) -> None:
        for seat in touched:
            self._guard(seat, seat.watcher.settle, now)
            self._set_alarm(seat)

    def _set_alarm(self, seat: Seat) -> None:
        due = seat.watcher.due
        if due < seat.alarm and seat in self._seats:
            seat.alarm, seat.later_alarm = due, seat.alarm
            heapq.heappush(self._alarms, (due, next(self._count), seat))

    def _ring_alarms(self, now: float) -> None:
        while self._alarms and self._alarms[0][0] <= now:
            due, _, seat = heapq.heappop(self._alarms)
            if seat is None or seat not in self._seats or due != seat.alarm:
                continue
            seat.alarm, seat.later_alarm = seat.later_alarm, float("inf")
            if seat.watcher.due <= now:
                self._guard(seat, seat.watcher.wake, now)
            self._set_alarm(seat)

    def _guard(self, seat: Seat, action: Callable[..., None], *arguments: Any) -> None:
        """One watcher's fault ends its own connection, not the hub."""
        try:
            action(*arguments)
        except Exception:
            log.exception("A waiting client had to be dropped")
            seat.drop()
