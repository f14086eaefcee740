"""The hub: one event loop per web process that keeps every waiting client, so that none of them costs a thread.

It hears the doorbell and reads the feed of changes, one query for all watchers each time: when the bell rings, when the
subscription was renewed, and once a second always. A bell carries no truth, so a lost one costs a second at most.
"""

import logging
import os
import resource
import selectors
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from jobs.clock import monotonic
from jobs.core import access, journal, reads
from jobs.db import Database, Row
from jobs.doorbell import Doorbell
from jobs.errors import StorageUnavailable
from jobs.settings import Settings
from jobs.web.alarms import Alarms
from jobs.web.frames import Change
from jobs.web.known import Known
from jobs.web.seats import Seat, SocketSeat
from jobs.web.watchers import EVERYTHING, LogStream, Topic

_TICK = 1.0
_READ_INTERVAL = 0.01     # under a storm of bells, that many seconds between two reads of the feed
_PAGE = 500
_LINGER = 30.0            # seconds that a reader gets to take the end of an answer
_PATIENCE = 0.5           # seconds that slow readers get when the server stops
_SPARE_FILES = 200        # descriptors for everything but watchers

log = logging.getLogger(__name__)


class Hub:
    """Keeps waiting clients. `position`, `join`, `left` from another thread, and `leave` may be called at any time."""

    def __init__(self, db: Database, doorbell: Doorbell, settings: Settings):
        self._db, self._doorbell, self._settings = db, doorbell, settings
        self._starting = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._pid: int | None = None
        self._position = self._cap = 0
        self._seats: set[Seat] = set()
        self._topics: defaultdict[Topic, set[Seat]] = defaultdict(set)
        self._followers: set[Seat] = set()      # those who follow a log
        self._alarms = Alarms()
        self._inbox: deque[Callable[[], None]] = deque()
        self._hints: dict[int, dict[str, Any]] = {}
        self._known = Known()
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

    @property
    def waiting(self) -> int:
        """How many clients wait in this process."""
        return len(self._seats) if self._pid == os.getpid() else 0

    def is_full(self, parking: bool) -> bool:
        """Whether as many clients wait as this process can keep: parked, or else each on a thread."""
        self.position()
        return self.waiting >= (self._cap if parking else max(1, self._settings.web_threads // 2))

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
        self._cap = min(self._settings.max_watchers, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES)
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
        times = [self._next_tick, self._alarms.next()]
        if self._read_from is not None:
            times.append(self._next_read)
        if self._leaving_until is not None and self._seats:
            times.append(self._leaving_until)
        return min(times)

    # What happens on the hub's thread

    def _join(self, seat: Seat) -> None:
        now = monotonic()
        seat.hub = self
        self._seats.add(seat)
        self._topics[seat.watcher.topic].add(seat)
        if isinstance(seat.watcher, LogStream):
            self._followers.add(seat)
        if isinstance(seat, SocketSeat):
            self._guard(seat, self.selector.register, seat.sock, selectors.EVENT_READ, seat)
        if seat.watcher.current:
            seat.watcher.current = self._known.remember(seat.watcher.current)
        if seat.watcher.since < self._position or len(self._seats) == 1:  # the first comes after bells that nobody heard
            self._want(seat.watcher.since)
        for action in (partial(seat.watcher.start, now), seat.flush, *([seat.watcher.leave] if self._leaving_until else [])):
            if seat in self._seats:
                self._guard(seat, action)
        self._alarms.set(seat)

    def left(self, seat: Seat) -> None:
        """A seat has become free; the seat itself says so, once."""
        self._seats.remove(seat)
        self._followers.discard(seat)
        sitting = self._topics[seat.watcher.topic]
        sitting.remove(seat)
        if not sitting:
            del self._topics[seat.watcher.topic]
        if isinstance(seat, SocketSeat):
            with suppress(KeyError, ValueError):  # it may have been gone before it could be registered
                self.selector.unregister(seat.sock)

    def linger(self, seat: Seat) -> None:
        """A seat has nothing more to say, but its reader has not taken all of it yet: for so long it may."""
        seat.watcher.due = monotonic() + _LINGER
        self._alarms.set(seat)

    def _leave(self) -> None:
        self._leaving_until = monotonic() + _PATIENCE
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
        self._see_out()
        if self._followers:
            self._read_lines(monotonic())

    def _see_out(self) -> None:
        """Streams of a key that was revoked, or of a browser that has signed out, end."""
        key_ids = {seat.watcher.key_id for seat in self._seats} - {None}
        sessions = {seat.watcher.session for seat in self._seats} - {None}
        keys = access.live_keys(self._db.read(), key_ids) | {None}  # a signature cannot be revoked
        signed_in = (access.live_sessions(self._db.read(), sessions) if sessions else set()) | {None}
        for seat in [seat for seat in self._seats
                     if seat.watcher.key_id not in keys or seat.watcher.session not in signed_in]:
            seat.drop()

    def _read_feed(self, now: float) -> None:
        reader = self._db.read()
        full_page = True
        while full_page:
            rows = reads.changes(reader, self._read_from, _PAGE)
            touched: set[Seat] = set()
            for row in rows:
                touched |= self._tell(self.change(row))
            if rows:
                self._read_from = rows[-1].version
                self._position = max(self._position, self._read_from)
            self._settle(touched, now)
            if touched & self._followers:
                self._read_lines(now)
            full_page = len(rows) == _PAGE
        self._read_from = None

    def _read_lines(self, now: float) -> None:
        """The new lines of every log that is followed, again by one query for all."""
        full_page = True
        while full_page and self._followers:
            after = min(seat.watcher.after for seat in self._followers)
            rows = journal.read_many(self._db.read(), {seat.watcher.topic[1] for seat in self._followers}, after, _PAGE)
            full_page = len(rows) == _PAGE
            lines = defaultdict(list)
            for row in rows:
                lines[row.job_id].append(row)
            for seat in list(self._followers):
                news, upto = lines[seat.watcher.topic[1]], rows[-1].id if rows else after
                self._guard(seat, seat.watcher.read, news, upto, not full_page, now)
                self._alarms.set(seat)

    def _tell(self, change: Change) -> set[Seat]:
        self._known.remember(change)
        row, touched = change.row, set()
        for topic in (("job", row.id), ("owner", row.owner), EVERYTHING):
            for seat in self._topics.get(topic, ()):
                seat.watcher.deliver(change)
                touched.add(seat)
        return touched

    def _pass_hints(self, now: float) -> None:
        hints, self._hints = self._hints, {}
        touched: set[Seat] = set()
        for message in hints.values():
            if change := self._known.hasten(message):
                touched |= self._tell(change)
        self._settle(touched, now)

    def _settle(self, touched: set[Seat], now: float) -> None:
        for seat in touched:
            self._guard(seat, seat.watcher.settle, now)
            self._alarms.set(seat)

    def _ring_alarms(self, now: float) -> None:
        for seat in self._alarms.ringing(now):
            if seat in self._seats:
                if seat.watcher.due <= now:
                    self._guard(seat, seat.drop if seat.ending else partial(seat.watcher.wake, now))
                self._alarms.set(seat)

    def _guard(self, seat: Seat, action: Callable[..., None], *arguments: Any) -> None:
        """One watcher's fault ends its own connection, not the hub."""
        try:
            action(*arguments)
        except Exception:
            log.exception("A waiting client had to be dropped")
            seat.drop()
