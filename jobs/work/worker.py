"""The worker: an RQ worker that takes tickets, and lets its horse run whatever job the database says is next.

Of RQ it uses the queue, the ticket and the registration by which workers are seen. RQ's retries, scheduler, time-outs,
results, command channel and registries are not used: they lose or wrong work when something dies, and the database does
all of that. Redis may vanish at any time; the job that runs never notices.
"""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any
from uuid import uuid4

import redis
import rq
from rq import worker_registration
from rq.exceptions import DequeueTimeout
from rq.job import Job as Ticket
from rq.job import JobStatus as TicketStatus
from rq.serializers import JSONSerializer
from rq.utils import as_text, now
from rq.worker import WorkerStatus

from jobs import clock, doorbell
from jobs.settings import Settings
from jobs.work import process, tickets
from jobs.work.job_type import Registry
from jobs.work.rider import Rider

ANNOUNCE = 10.0        # seconds between signs of life in Redis
ANNOUNCE_CHANGE = 1.0  # seconds from one sign to the next when the state has changed
STEP = 1               # seconds that one wait for a ticket lasts
WORKER_TTL = 60        # seconds until a worker that gave no sign is no longer listed
_log = logging.getLogger(__name__)


class Worker(rq.Worker):
    """Serves one queue: with several, RQ keeps no list of tickets under way."""

    dequeue_timeout = STEP          # RQ computes both from its worker_ttl, and would then wait for minutes
    connection_timeout = STEP + 1

    def __init__(self, settings: Settings, registry: Registry, queue: str):
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        super().__init__([queue], name=name, connection=tickets.connect(settings.redis_url), serializer=JSONSerializer,
                         worker_ttl=WORKER_TTL, log_job_description=False)
        self._settings = settings
        self._quick = doorbell.connect(settings.redis_url)  # while a job runs nothing may wait for Redis
        self._bell = doorbell.Doorbell(settings.redis_url)
        self._rider = Rider(settings, registry, self._bell, queue, name, lambda: self._must_end, self._forget_redis)
        self._must_end: float | None = None
        self._signal: int | None = None
        self._announced: tuple[str, float] = ("", 0.0)
        self._redis_away = False
        self.birth_date = now()

    # The loop

    def work(self, **_: Any) -> int:
        """Take tickets until a signal says stop; the exit code."""
        process.adopt_orphans()
        self._install_signal_handlers()
        _log.info("worker %s serves %s", self.name, ", ".join(self.queue_names()))
        try:
            while not self._stop_requested:
                self._horse_pid = self._rider.saddle()
                self._announce(WorkerStatus.IDLE)
                taken = self._take()
                if taken and not self._stop_requested:
                    self.execute_job(*taken)
        finally:
            self._rider.close()
            self.teardown()
        return 130 if self._signal == signal.SIGINT else 0

    def _take(self) -> tuple[Ticket, rq.Queue] | None:
        """The next ticket, or None after a short while. An outage of Redis is waited out."""
        [queue] = self.queues
        try:
            _, ticket_id = queue.lmove(self.connection, queue.key, self.dequeue_timeout)
        except DequeueTimeout:
            ticket_id = None
        except (redis.RedisError, OSError) as error:
            if not self._redis_away:
                _log.warning("Redis is away: %s", error)
            self._redis_away = True
            time.sleep(0.5)
            return None
        if self._redis_away:
            _log.warning("Redis is back")
        self._redis_away = False
        # What is written on it does not matter, so nobody fetches it.
        return (self.job_class(as_text(ticket_id), self.connection, self.serializer), queue) if ticket_id else None

    def execute_job(self, ticket: Ticket, queue: rq.Queue) -> None:
        """Spend a ticket on whatever is next in the database."""
        self.fork_work_horse(ticket, queue)
        self.monitor_work_horse(ticket, queue)

    def fork_work_horse(self, ticket: Ticket, queue: rq.Queue) -> None:
        """The horse is forked before the first ticket and used again."""
        self._horse_pid = self._rider.saddle()

    def monitor_work_horse(self, ticket: Ticket, queue: rq.Queue, execution: None = None) -> None:
        """Watch one job to its end."""
        self._rider.ride(started=lambda: self._spend(ticket, queue), idle=lambda: self._announce(WorkerStatus.BUSY))

    # Stopping

    def _install_signal_handlers(self) -> None:
        signal.signal(signal.SIGINT, self.request_stop)
        signal.signal(signal.SIGTERM, self.request_stop)

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Only take note. The first signal lets the job run on for the time of `drain`, a later one ends that time."""
        again = self._stop_requested
        self._signal = self._signal or signum
        self._stop_requested = True
        if not again:
            self._must_end = clock.monotonic() + self._settings.drain
        elif clock.monotonic() > self._must_end - self._settings.drain + 1:  # not the same stop, sent by two
            self._must_end = clock.monotonic()

    def kill_horse(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Kill the horse's group; nothing when there is no horse (RQ would then kill its own group)."""
        process.kill_group(self._horse_pid)

    def teardown(self) -> None:
        """Sign off, if Redis listens."""
        self._quietly(self.register_death)

    # What others see in Redis

    def subscribe(self) -> None:
        """Not to RQ's command channel: its thread would live across the fork, and cancelling goes by the database."""

    def _forget_redis(self) -> None:
        """In a horse just forked: our copies of the worker's connections would stay open when it has closed its own."""
        self._bell.forget()
        for client in (self.connection, self._quick):
            client.connection_pool.reset()

    def _set_ip_address(self, connection: redis.Redis) -> None:
        self.ip_address = "unknown"  # asking Redis for it would fail the start while Redis is away

    def _spend(self, ticket: Ticket, queue: rq.Queue) -> None:
        """The ticket has brought us here; forget it."""
        def spend() -> None:
            with self._quick.pipeline(transaction=False) as pipeline:
                pipeline.lrem(queue.intermediate_queue_key, 1, ticket.id)
                pipeline.hset(ticket.key, "status", TicketStatus.FINISHED)
                pipeline.expire(ticket.key, tickets.RESULT_TTL)
                pipeline.execute()

        self._quietly(spend)

    def _announce(self, state: WorkerStatus) -> None:
        """Give a sign of life, the whole registration each time: a Redis that was emptied knows us again by it."""
        last, at = self._announced
        if clock.monotonic() - at < (ANNOUNCE if state == last else ANNOUNCE_CHANGE):
            return
        self._announced = (state, clock.monotonic())
        self._state = state
        self.last_heartbeat = now()

        def announce() -> None:
            with self._quick.pipeline(transaction=False) as pipeline:
                pipeline.hset(self.key, mapping=self.serialize() | {"state": state})
                pipeline.expire(self.key, self.worker_ttl)
                worker_registration.register(self, pipeline)
                for queue in self.queues:
                    pipeline.expire(queue.intermediate_queue_key, tickets.FAILURE_TTL)
                pipeline.execute()

        self._quietly(announce)

    def _quietly(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except (redis.RedisError, OSError):
            pass  # nothing depends on it; the next sign comes in a moment


def main(settings: Settings, registry: Registry, queue: str = "default") -> int:
    """Run a worker until it is told to stop; the exit code."""
    return Worker(settings, registry, queue).work()
