"""The rider: the worker's watch over one attempt, from the claim to its end, whatever becomes of the horse.

Single-threaded. While the job runs it renews the lease, writes down what the horse reports, looks for a cancel, and
puts the horse down when its time is up. Then it settles the attempt itself, guarded like every write.
"""

import logging
import shutil
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from jobs import clock, partials
from jobs.core import cleanups, journal, lifecycle
from jobs.core.outcome import Cancelled
from jobs.core.states import Status
from jobs.db import Database, Transaction
from jobs.doorbell import Doorbell
from jobs.errors import Problem, StorageUnavailable
from jobs.settings import Settings
from jobs.work import inputs, runner
from jobs.work.attempt import Attempt, Fate
from jobs.work.channel import Channel
from jobs.work.context import workdir_of
from jobs.work.horse import Horse
from jobs.work.job_type import Registry
from jobs.work.reins import Reins

TICK = 0.1             # seconds between looks at everything
LOOK_FOR_CANCEL = 0.2  # seconds between looks at the lease
WRITE_DOWN = 1.0       # seconds between writes of progress
WRITE_LOG = 0.5        # seconds that a line of the log may wait to be written
PUBLISH = 0.1          # seconds between messages about one job
OVERTIME = 5.0         # seconds from the time-out until the horse is killed
CLOSING = runner.CLEANUP_SECONDS + 10.0  # seconds that clean-up, last writes and settling may take
CLAIMING = 60.0        # seconds that a claim may take
MUTE = 5.0             # seconds without the doorbell after Redis did not take a message
_log = logging.getLogger(__name__)
_told = logging.getLogger("accepted.jobs")  # what is told of each job even when little is
T = TypeVar("T")


class Rider:
    """Keeps a horse ready and rides one job at a time.

    `must_end()` is the time by which a ride has to end, or None. `forked()` is called in each new horse.
    """

    def __init__(self, settings: Settings, registry: Registry, doorbell: Doorbell, queue: str, name: str,
                 must_end: Callable[[], float | None], forked: Callable[[], None]):
        self._settings = settings
        self._registry = registry
        self._db = Database(settings, announce=self._publish)
        self._doorbell = doorbell
        self._queue = queue
        self._name = name
        self._must_end, self._forked = must_end, forked
        self._horse: Reins | None = None
        self._job: Attempt | None = None
        self._words: deque[dict[str, Any]] = deque()
        self._muted_until = 0.0
        self._storage_back = 0.0

    def saddle(self) -> int:
        """Make sure that a horse is ready; its pid. At the moment of the fork no database handle is open."""
        if self._horse is not None and not self._horse.alive():
            self._dismount()
        if self._horse is None:
            self._db.close()
            self._horse = Reins(self._mount)
        return self._horse.pid

    def _mount(self, channel: Channel) -> None:
        """In the new process: be the horse."""
        self._forked()
        Horse(self._settings, self._registry, self._queue, self._name, channel).run()

    def ride(self, started: Callable[[], None], idle: Callable[[], None]) -> None:
        """Let the horse take the next job and watch it to its end.

        `started()` is called once the ticket has served its purpose, `idle()` on every tick.
        """
        self.saddle()
        self._job = None
        self._horse.say(do="work")
        fate = self._watch(started, idle)
        if fate is not None:
            self._conclude(fate)
        self._job = None

    def close(self) -> None:
        """Let the horse go."""
        self._dismount()
        self._db.close()

    # The ride

    def _watch(self, started: Callable[[], None], idle: Callable[[], None]) -> Fate | None:
        claim_by = clock.monotonic() + CLAIMING
        while True:
            alive = self._horse.alive()  # asked first: what it said before it died is still heard
            self._words.extend(self._horse.listen(TICK if alive else 0))
            while self._words:
                if self._hear(self._words.popleft(), started):
                    return None
            if not alive:
                return Fate.CRASHED
            fate = self._look() if self._job else (Fate.CRASHED if clock.monotonic() > claim_by else None)
            if fate is not None:
                return fate
            idle()

    def _hear(self, word: dict[str, Any], started: Callable[[], None]) -> bool:
        """Take in what the horse says; whether it is through."""
        job = self._job
        if job is None and word["tell"] in ("progress", "log", "left"):
            return False    # a clean-up after a job that has ended has nobody to tell it to
        match word.pop("tell"):
            case "bell":
                self._publish(word["message"])
            case "claimed":
                self._job = job = Attempt(**word)
                job.ends(job.since + job.timeout + OVERTIME, Fate.TIMED_OUT)
                _told.info("job %s (%s) started, attempt %s", job.id, job.type, job.attempt)
                started()
            case "progress":
                job.state, job.unwritten, job.unpublished = word, True, True
            case "log":
                job.lines += map(tuple, word["lines"])
            case "left":
                job.left = True
                job.ends(clock.monotonic() + CLOSING, Fate.CRASHED)
                self._release(job)
            case "waiting":
                if job is not None and job.left:
                    job.ends(clock.monotonic() + CLOSING, Fate.CRASHED)
            case "done":
                if job is None:
                    started()
                else:
                    self._tell_end(word["status"])
                if word["retire"]:
                    self._retire(word["retire"])
                return True
        return False

    def _look(self) -> Fate | None:
        """Do what is due at this moment; why the ride must end now, or None."""
        job, now = self._job, clock.monotonic()
        if not job.left:
            if job.unpublished and now - job.published >= PUBLISH:
                job.published, job.unpublished = now, False
                self._publish(job.bell())
            if now - job.looked >= LOOK_FOR_CANCEL and not job.cancel_asked:
                self._look_for_cancel(job, now)
        elif not job.released:
            self._release(job)
        if self._is_due(job, now) and not self._write_down(job):
            return Fate.LOST
        deadline = self._must_end()
        if deadline is not None and now > deadline and not job.left:
            return Fate.HANDED_BACK
        return job.end_as if now > job.end else None

    def _is_due(self, job: Attempt, now: float) -> bool:
        since = now - job.written
        return (job.unwritten and since >= WRITE_DOWN or bool(job.lines) and since >= WRITE_LOG
                or since >= self._settings.heartbeat or now - job.shown >= self._settings.keepalive)

    def _write_down(self, job: Attempt) -> bool:
        """Beat the lease and put on disk what the horse has reported, at once; False when the lease is lost."""
        now = clock.monotonic()
        if now < self._storage_back:
            return True
        show = job.unwritten or now - job.shown >= self._settings.keepalive

        def write(tx: Transaction) -> lifecycle.Beat | None:
            beat = lifecycle.beat(tx, job.id, job.attempt)
            if beat is not None:
                journal.write(tx, job.id, job.attempt, job.lines)
                if show:
                    lifecycle.report(tx, job.id, job.attempt, **job.state)
            return beat

        try:
            beat = self._db.write(write, durable=False)
        except StorageUnavailable as error:
            _log.warning("the database cannot be written: %s", error)
            self._storage_back = now + 1
            return True
        job.written, job.lines, job.unwritten = now, [], False
        if show:
            job.shown, job.unpublished = now, False  # the transaction rang the bell
        if beat is None:
            return self._is_settled(job)
        if beat.cancel_requested:
            self._ask_to_stop(job)
        return True

    def _is_settled(self, job: Attempt) -> bool:
        """Whether the lease is gone because the horse has settled the job: it said that it left before it did."""
        self._words.extend(self._horse.listen(0))
        return job.left or any(word["tell"] == "left" for word in self._words)

    def _release(self, job: Attempt) -> None:
        """Let the horse settle as soon as all that it told is on disk."""
        self._write_down(job)
        if not job.untold:
            job.released = True
            self._horse.say(do="go on")

    def _look_for_cancel(self, job: Attempt, now: float) -> None:
        job.looked = now
        try:
            cancel = self._db.read().value("SELECT cancel FROM leases WHERE job_id = :id AND attempt = :attempt",
                                           id=job.id, attempt=job.attempt)
        except StorageUnavailable:
            return
        if cancel:
            self._ask_to_stop(job)

    def _ask_to_stop(self, job: Attempt) -> None:
        if not job.cancel_asked and not job.left:
            job.cancel_asked = True
            if clock.monotonic() + self._settings.grace < job.end:
                job.ends(clock.monotonic() + self._settings.grace, Fate.CANCELLED)
            self._horse.say(do="cancel")

    def _publish(self, message: dict[str, Any]) -> None:
        """Ring the doorbell; a Redis that does not answer is left alone for a while, so that it slows nothing."""
        now = clock.monotonic()
        if now >= self._muted_until and not self._doorbell.publish(message):
            self._muted_until = now + MUTE

    def _tell_end(self, status: str | None) -> None:
        job = self._job
        _told.info("job %s (%s) %s after %.1f s", job.id, job.type, status or "was given to another worker",
                   clock.monotonic() - job.since)

    # The end of a ride that the horse did not end itself

    def _conclude(self, fate: Fate) -> None:
        job = self._job
        self._dismount()
        if job is None:
            _log.warning("the horse was put down before it had a job: %s", fate)
            self._persist(self._lose_what_was_claimed)
            return
        _log.warning("job %s (%s), attempt %s: the horse was put down: %s", job.id, job.type, job.attempt, fate)
        if fate is Fate.LOST:
            self._words.clear()
        elif fate is Fate.CANCELLED:
            self._settle(job, fate)  # the caller of the cancel waits for this, not for the clean-up
            partials.clear(inputs.kept_of(self._settings, job.id))
            self._clean(job)
        else:
            if fate is not Fate.HANDED_BACK:
                self._clean(job)
            self._settle(job, fate)
        shutil.rmtree(workdir_of(self._settings, job.id, job.attempt), ignore_errors=True)

    def _settle(self, job: Attempt, fate: Fate) -> None:
        def write(tx: Transaction) -> Status | None:
            journal.write(tx, job.id, job.attempt, job.lines)
            if job.unwritten:
                lifecycle.report(tx, job.id, job.attempt, **job.state)
            match fate:
                case Fate.CANCELLED:
                    status = lifecycle.settle(tx, job.id, job.attempt, Cancelled())
                    cleanups.take(tx, job.id, job.attempt)      # we see to it at once
                    return status
                case Fate.TIMED_OUT:
                    return lifecycle.settle(tx, job.id, job.attempt, runner.timed_out(job.attempt, job.timeout))
                case Fate.HANDED_BACK:
                    return lifecycle.hand_back(tx, job.id, job.attempt)
                case _:
                    return lifecycle.settle(tx, job.id, job.attempt, runner.crashed(job.attempt))

        self._tell_end(self._persist(write))

    def _lose_what_was_claimed(self, tx: Transaction) -> None:
        """The horse died before it could say what it had claimed; its lease bears our name."""
        for lease in tx.all("SELECT job_id, attempt FROM leases WHERE worker = :name", name=self._name):
            lifecycle.settle(tx, lease.job_id, lease.attempt, runner.crashed(lease.attempt))

    def _clean(self, job: Attempt) -> None:
        """Have a fresh horse run the type's clean-up, under the lease that we still hold."""
        if not job.cleanup:
            return
        self.saddle()
        self._horse.say(do="clean", id=job.id, attempt=job.attempt)
        job.left = job.released = True
        job.ends(clock.monotonic() + CLOSING, Fate.CRASHED)
        self._watch(lambda: None, lambda: None)
        self._dismount()

    def _persist(self, function: Callable[[Transaction], T]) -> T | None:
        """Write, however long the database cannot be written; a worker that must stop leaves it to the sweeper."""
        while True:
            try:
                return self._db.write(function)
            except StorageUnavailable as error:
                _log.warning("the database cannot be written: %s", error)
                if self._must_end() is not None:
                    return None
                time.sleep(1)

    def _retire(self, reason: str) -> None:
        _log.log(logging.DEBUG if reason == "isolate" else logging.WARNING, "the horse retires: %s", reason)
        self._dismount()

    def _dismount(self) -> None:
        if self._horse is not None:
            self._horse.put_down()
        self._horse = None
        self._words.clear()
