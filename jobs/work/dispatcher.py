"""The dispatcher: keeps tickets in Redis for the work that is due, and sees to everything that has its time.

Any number may run, one leads. What it puts into Redis is no truth: an emptied Redis is filled again, one that is away is
waited for, and nothing here is lost when the process dies.
"""

import logging
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import redis

from jobs import clock
from jobs.artifacts.leftovers import Leftovers
from jobs.artifacts.retention import Retention
from jobs.artifacts.store import open_store
from jobs.core import claim, cleanups
from jobs.db import Database
from jobs.doorbell import Doorbell
from jobs.errors import StorageUnavailable
from jobs.settings import Settings
from jobs.targets import Guard
from jobs.webhooks.delivery import Sender
from jobs.work import tickets
from jobs.work.job_type import Registry
from jobs.work.leader import leadership
from jobs.work.sweeper import Sweeper

TICK = 0.25        # seconds that one wait for the bell lasts at most
DISPATCH = 1.0     # seconds between looks at what is due when no bell rings
RETENTION = 5.0    # seconds between looks at what has had its time
LEFTOVERS = 600.0  # seconds between looks at what lies about on this machine
_log = logging.getLogger(__name__)


@dataclass
class Task:
    """Something that is done every so often. What goes wrong is logged and tried again; it stops no other task."""

    name: str
    every: float
    do: Callable[[], object]
    due: float = 0.0

    def run(self, now: float) -> None:
        """Do it if it is time."""
        if now < self.due:
            return
        self.due = now + self.every
        try:
            self.do()
        except (StorageUnavailable, redis.RedisError, OSError) as error:
            _log.warning("%s: %s", self.name, error)
            self.due = now + max(self.every, 1.0)
        except Exception:
            _log.exception("%s failed", self.name)
            self.due = now + max(self.every, 5.0)


class Dispatcher:
    """One process's dispatcher; `run` ends with a signal."""

    def __init__(self, settings: Settings, registry: Registry):
        self._settings = settings
        self._doorbell = Doorbell(settings.redis_url)
        self._db = Database(settings, announce=self._doorbell.ring)
        self._redis = tickets.connect(settings.redis_url) if settings.redis_url else None
        self._leader = leadership(settings)
        self._sender = Sender(self._db, settings, Guard(settings.allowed_targets))
        self._tickets: dict[str, tickets.Tickets] = {}
        self._limits = registry.limits
        self._bound = 2 * settings.workers + 4
        self._signal: int | None = None
        self._log_seen: tuple | None = None
        self._dispatch = Task("dispatch", DISPATCH, self.dispatch)
        self._leftovers = Task("leftovers", LEFTOVERS, Leftovers(self._db, open_store(settings), settings).sweep)
        self._tasks = [self._dispatch, Task("checkpoint", TICK, self._checkpoint),
                       Task("sweep", min(1.0, settings.lease / 4), Sweeper(self._db, settings.lease).sweep),
                       Task("retention", RETENTION, Retention(self._db, open_store(settings), settings).sweep),
                       Task("callbacks", TICK, self._sender.tick)]

    def run(self) -> int:
        """Lead whenever nobody else does, until a signal comes; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        bell = self._doorbell.listen()
        while self._signal is None:
            message = bell.get(TICK)
            if message and message.get("status") != "running":
                self._dispatch.due = 0.0
            self._leftovers.run(clock.monotonic())      # of this machine, whoever leads
            if self._leader.held():
                self._step()
        self._sender.close()
        self._leader.close()
        self._db.close()
        return 130 if self._signal == signal.SIGINT else 0

    def _step(self) -> None:
        now = clock.monotonic()
        for task in self._tasks:
            task.run(now)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._signal = signum

    def dispatch(self) -> int:
        """Make sure that a queue has a ticket for each job that may start, up to a small bound; how many were added.

        A type at its limit gets none before the bell tells that one of its jobs has ended.
        """
        if self._redis is None:
            return 0
        added, reader = 0, self._db.read()
        owed = cleanups.waiting(reader)
        room, queued = claim.room(reader, self._limits), Counter()
        for row in reader.all("""SELECT queue, type, sum(number) AS number FROM tallies WHERE status = 'queued'
                                 GROUP BY queue, type HAVING sum(number) > 0"""):
            number = int(row.number)        # PostgreSQL sums to a decimal
            queued[row.queue] += max(min(number, room.get(row.type, number)), 0)
        for queue in queued.keys() | owed.keys():
            if queue not in self._tickets:
                self._tickets[queue] = tickets.Tickets(self._redis, queue)
            due = min(self._due(queue), queued[queue])
            added += self._tickets[queue].refill(min(due + owed.get(queue, 0), self._bound))
        return added

    def _due(self, queue: str) -> int:
        """How many jobs of a queue may start now, counted up to the bound; looks again when the next one may."""
        reader, now = self._db.read(), clock.wire(clock.now())
        later = reader.value(
            "SELECT min(due_at) FROM jobs WHERE status = 'queued' AND queue = :queue AND due_at > :now", queue=queue, now=now)
        if later is not None:
            self._dispatch.due = min(self._dispatch.due, clock.monotonic() + max(clock.seconds_until(later), 0.0))
        return reader.value("""SELECT count(*) FROM (SELECT 1 FROM jobs WHERE status = 'queued' AND queue = :queue
                               AND due_at <= :now LIMIT :bound) AS due""", queue=queue, now=now, bound=self._bound)

    def _checkpoint(self) -> None:
        """Move SQLite's log into the database while it is written; outside a writer's turn it would never reset."""
        if self._db.dialect != "sqlite":
            return
        try:
            found = self._db.path.with_name(self._db.path.name + "-wal").stat()
        except FileNotFoundError:
            return
        seen = (found.st_mtime_ns, found.st_size)
        if seen != self._log_seen:
            self._db.checkpoint()
            self._log_seen = seen


def main(settings: Settings, registry: Registry) -> int:
    """Run a dispatcher until it is told to stop; the exit code."""
    return Dispatcher(settings, registry).run()
