"""The horse: the process in which handlers run. It is forked once and serves many jobs, one after the other.

It speaks to the worker that forked it over a `Channel`, writes to the database (claim, artifacts, settle) and never
touches Redis. Anything that a job leaves behind retires it.
"""

import logging
import os
import random
import signal
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from jobs.core import claim, cleanups, lifecycle
from jobs.core.outcome import Outcome, Succeeded
from jobs.core.states import Status
from jobs.db import Database, Row, Transaction
from jobs.errors import StorageUnavailable, StorageUnknown
from jobs.settings import Settings
from jobs.work import process, runner
from jobs.work.alarm import Alarm
from jobs.work.channel import Channel, Closed
from jobs.work.context import Context, discard_earlier
from jobs.work.job_type import Registry
from jobs.work.traces import Traces

JOBS = 1000            # after so many jobs a horse retires: whatever leaks slowly ends there
MEMORY = 1024 ** 3     # bytes by which a horse may grow
_PATIENCE = 2          # seconds at most between tries to write to a database that does not take it
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Horse:
    """Lives in the forked process; `run` never returns."""

    def __init__(self, settings: Settings, registry: Registry, queue: str, worker: str, channel: Channel):
        self._settings = settings
        self._registry = registry
        self._queue = queue
        self._worker = worker
        self._channel = channel
        self._alarm = Alarm()
        self._db = Database(settings, announce=lambda message: channel.send(tell="bell", message=message))
        self._jobs = 0
        self._unsure = False    # whether a claim may have been committed although the database did not say so
        self._memory = process.memory()

    def run(self) -> NoReturn:
        """Do what the worker says until it is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the worker, which drains
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        process.adopt_orphans()
        random.seed()
        try:
            self._db.read().value("SELECT 1")  # now, so that the connection is no trace of the first job
            while True:
                self._obey(self._channel.receive(None))
        except Closed:
            os._exit(0)
        except BaseException:
            _log.exception("the horse fell")
            os._exit(1)

    def _obey(self, order: dict) -> None:
        if order["do"] == "work":
            status, retire = self._work()
            self._channel.send(tell="done", status=status, retire=retire)
        elif order["do"] == "clean":
            row = self._db.read().one("SELECT * FROM jobs WHERE id = :id", id=order["id"])
            if row is not None:
                self._clean(Row(row, attempt=order["attempt"]))
            self._channel.send(tell="done", status=None, retire=None)

    # One job

    def _work(self) -> tuple[Status | None, str | None]:
        """Claim, perform, settle; where the job then stands, and why this horse should retire, or None.

        A clean-up that an ended job still owes goes first.
        """
        owed, row = self._claim()
        traces = Traces()
        if owed is not None:
            _log.info("%s %s: cleaning up after attempt %s", owed.type, owed.id, owed.attempt)
            self._clean(owed)
            return None, self._reason_to_retire(owed, traces)
        if row is None:
            return None, None
        kind = self._registry.get(row.type)
        self._channel.send(tell="claimed", id=row.id, attempt=row.attempt, type=row.type, owner=row.owner,
                           timeout=row.timeout, cleanup=bool(kind and kind.cleanup))
        job = self._context(row)
        try:
            for attempt in cleanups.before(self._db.read(), row.id, row.attempt) if row.attempt > 1 else ():
                self._clean(Row(row, attempt=attempt))
            discard_earlier(self._settings, row.id, row.attempt)
            outcome = runner.perform(row, job, self._registry, self._alarm)
            # An attempt that is no longer ours is cleaned up after by whoever has the job now.
            failed = outcome is not None and not isinstance(outcome, Succeeded)
            cleaned = failed and runner.clean(row, job, kind, self._alarm)
            self._leave(job)
            status = self._settle(row, outcome, cleaned) if outcome is not None else None
        finally:
            job.close()
        return status, self._reason_to_retire(row, traces)

    def _claim(self) -> tuple[Row | None, Row | None]:
        """(a job to clean up after, a job to run); at most one of them."""
        found = self._persist(self._next, durable=False)
        self._unsure = False
        return found

    def _next(self, tx: Transaction) -> tuple[Row | None, Row | None]:
        if self._unsure and (taken := claim.taken(tx, self._worker)):
            return None, taken
        owed = cleanups.take_next(tx, self._queue)
        if owed is not None:
            return owed, None
        types = self._registry
        return None, claim.claim_next(tx, self._queue, self._worker, types.limits, types.cleaned)

    def _leave(self, job: Context) -> None:
        """Tell that the handler is through, and wait until what it reported and logged is on disk."""
        self._channel.send(tell="left")
        if job.has_told:
            while (self._channel.receive(None) or {}).get("do") != "go on":
                pass  # a cancel that comes now comes too late

    def _settle(self, row: Row, outcome: Outcome, cleaned: bool) -> Status | None:
        def write(tx: Transaction) -> Status | None:
            if cleaned:
                cleanups.drop(tx, row.id, row.attempt)
            return lifecycle.settle(tx, row.id, row.attempt, outcome)

        return self._persist(write)

    def _clean(self, row: Row) -> None:
        """Run the clean-up of an attempt that has ended."""
        job = self._context(row)
        try:
            if runner.clean(row, job, self._registry.get(row.type), self._alarm):
                self._persist(lambda tx: cleanups.drop(tx, row.id, row.attempt), durable=False)
        finally:
            job.close()

    def _context(self, row: Row) -> Context:
        return Context(row, self._settings, self._db, self._channel, self._alarm)

    def _persist(self, function: Callable[[Transaction], T], durable: bool = True) -> T:
        """Write, however long the database takes to be writable again; the worker hears that we still try."""
        pause = 0.05
        while True:
            try:
                return self._db.write(function, durable=durable)
            except StorageUnavailable as error:
                _log.warning("the database cannot be written: %s", error)
                self._unsure |= isinstance(error, StorageUnknown)
                self._channel.send(tell="waiting")
                time.sleep(pause)
                pause = min(pause * 2, _PATIENCE)

    def _reason_to_retire(self, row: Row, traces: Traces) -> str | None:
        self._jobs += 1
        left = traces.left()
        if left:
            return f"{row.type} {row.id} left changed: {', '.join(left)}"
        return "isolate" if self._settings.isolate else self._worn(row)

    def _worn(self, row: Row) -> str | None:
        if process.memory() - self._memory > MEMORY:
            return f"it grew too much; the last job was {row.type} {row.id}"
        return f"{JOBS} jobs" if self._jobs >= JOBS else None
