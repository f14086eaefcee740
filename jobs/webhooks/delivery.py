"""The sender: takes what is due, posts it, and writes down what came back. One per server, inside the dispatcher.

A delivery is claimed by moving its next attempt ahead by a lease; if the sender is killed, the delivery falls due again
by itself. What is written after an attempt is guarded by the attempt's number, so a late sender writes nothing.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from jobs import clock
from jobs.connections import Unreachable
from jobs.db import Database, Row, Transaction, placeholders
from jobs.errors import Problem, StorageUnavailable
from jobs.settings import Settings
from jobs.targets import Guard
from jobs.webhooks import log, outbox, receivers, schedule, signing

AT_ONCE = 32               # quick deliveries under way
AT_ONCE_EACH = 4           # of these to one receiver
SLOW_AT_ONCE = 8           # beside them, to receivers that are slow to answer, one to each
AT_MOST = 128              # of both together
SLOW_AFTER = 2.0           # seconds without an answer
KEEP = 30 * 86400.0        # seconds for which the record of a delivery is kept
_PRUNE_EVERY = 60.0
_PAGES = 10                # of events in one tick
_MARGIN = 15.0             # seconds by which a lease outlives the longest attempt

logger = logging.getLogger(__name__)


class Sender:
    """Call `tick` a few times a second; it returns soon. Each delivery has a thread, which sees to the next, too."""

    def __init__(self, db: Database, settings: Settings, guard: Guard):
        self._db = db
        self._timeout = settings.callback_timeout
        self._guard = guard
        self._state = threading.Condition()     # guards what follows
        self._under_way: dict[int, _Place] = {}
        self._late: set[str] = set()            # receivers that let the last attempt time out
        self._claiming = False                  # one thread at a time hands out work
        self._more = False                      # more was due than could be started
        self._closing = False
        self._pruned_at = clock.monotonic()

    def tick(self) -> None:
        """Turn new events into deliveries, and start those that are due."""
        for _ in range(_PAGES):
            if not outbox.follow(self._db):
                break
        if self._db.read().value("SELECT 1 FROM deliveries WHERE state = 'pending' AND next_at <= :now LIMIT 1",
                                 now=clock.wire(clock.now())):
            self._start_due()
        if clock.monotonic() - self._pruned_at > _PRUNE_EVERY:
            self._pruned_at = clock.monotonic()
            self._db.write(lambda tx: log.prune(tx, clock.after(-KEEP)), durable=False)

    def close(self, seconds: float = 5.0) -> bool:
        """Start nothing more, and wait up to `seconds` for what is under way. False: some of it will be repeated."""
        with self._state:
            self._closing = True
        return self.settled(seconds)

    def settled(self, seconds: float) -> bool:
        """Wait up to `seconds` until nothing is under way."""
        with self._state:
            return self._state.wait_for(lambda: not self._under_way and not self._claiming, seconds)

    def _start_due(self) -> None:
        with self._state:
            if self._claiming or self._closing:
                return
            self._claiming = True
            room, known = _Room(self._under_way.values(), self._late), set(self._under_way)
        claimed: list[tuple[Row, list[str]]] = []
        try:
            claimed, self._more = self._db.write(
                lambda tx: _claim(tx, room, known, self._timeout + _MARGIN), durable=False)
        finally:
            with self._state:
                self._claiming = False
                self._under_way.update((row.id, _Place(row.receiver, row.job_id)) for row, _ in claimed)
                self._state.notify_all()
        for row, secrets in claimed:
            try:
                threading.Thread(target=self._deliver, args=(row, secrets), daemon=True).start()
            except RuntimeError:  # the system has no thread left; the lease runs out and it is tried again
                self._end(row)

    def _deliver(self, row: Row, secrets: list[str]) -> None:
        try:
            self._attempt(row, secrets)
        except StorageUnavailable:
            logger.warning("delivery %s was tried, but the database could not be written; it will be repeated", row.id)
        except Exception:
            logger.exception("delivery %s stopped on a fault of ours; it will be repeated", row.id)
        finally:
            self._end(row)
        try:
            if self._more:
                self._start_due()
        except StorageUnavailable:
            pass  # the next tick tries again

    def _end(self, row: Row) -> None:
        with self._state:
            del self._under_way[row.id]
            self._state.notify_all()

    def _attempt(self, row: Row, secrets: list[str]) -> None:
        started_at, began = clock.now(), clock.monotonic()
        outcome = self._post(row, signing.sign(secrets, row.message_id, int(started_at.timestamp()), row.body.encode()))
        took = round((clock.monotonic() - began) * 1000)
        self._mind(row.receiver, outcome)
        self._db.write(lambda tx: _settle(tx, row, clock.wire(started_at), took, outcome))

    def _post(self, row: Row, signatures: dict[str, str]) -> schedule.Outcome:
        headers = {"Content-Type": "application/json", "Idempotency-Key": row.idempotency_key, **signatures}
        if row.traceparent:
            headers["traceparent"] = row.traceparent
        try:
            return self._guard.request("POST", row.url, body=row.body.encode(), headers=headers, timeout=self._timeout,
                                       max_answer=log.EXCERPT)
        except (Unreachable, Problem) as fault:
            return fault

    def _mind(self, receiver: str, outcome: schedule.Outcome) -> None:
        with self._state:
            if isinstance(outcome, Unreachable) and outcome.kind in ("timeout", "dns"):
                self._late.add(receiver)
            else:
                self._late.discard(receiver)


@dataclass(frozen=True)
class _Place:
    """A delivery under way."""

    receiver: str
    job_id: int | None
    began: float = field(default_factory=clock.monotonic)


class _Room:
    """How much may still be started. Slow receivers have a few places of their own and take none from the others.

    A receiver is told of one event of a job at a time, so that they come in order as long as nothing goes wrong.
    """

    def __init__(self, under_way: Iterable[_Place], late: set[str]):
        under_way = list(under_way)
        patience = clock.monotonic() - SLOW_AFTER
        self._slow = late | {place.receiver for place in under_way if place.began < patience}
        self._busy = Counter(place.receiver for place in under_way)
        self._jobs = {(place.receiver, place.job_id) for place in under_way}

    def full(self) -> list[str]:
        """The receivers for which nothing can be started."""
        return [receiver for receiver in self._slow | set(self._busy) if not self._has_place(receiver)]

    def take(self, receiver: str, job_id: int | None) -> bool:
        """Start one more delivery to this receiver about this job, if there is room."""
        told = job_id is not None and (receiver, job_id) in self._jobs
        if told or not self._has_place(receiver):
            return False
        self._busy[receiver] += 1
        self._jobs.add((receiver, job_id))
        return True

    def _has_place(self, receiver: str) -> bool:
        slow = sum(self._busy[name] for name in self._slow)
        quick = self._busy.total() - slow
        if slow + quick >= AT_MOST:
            return False
        if receiver in self._slow:
            return slow < SLOW_AT_ONCE and not self._busy[receiver]
        return quick < AT_ONCE and self._busy[receiver] < AT_ONCE_EACH


def _claim(tx: Transaction, room: _Room, known: set[int], lease: float) -> tuple[list[tuple[Row, list[str]]], bool]:
    """Take what is due, the oldest first, as far as there is room, each with the secrets that sign it; and whether
    more was due. Receivers for which there is no room are not even looked at."""
    names, values = placeholders("full", room.full() or [""])
    due = tx.all(f"""
        SELECT id, receiver, job_id FROM (
            SELECT id, receiver, job_id, next_at, row_number() OVER (PARTITION BY receiver ORDER BY next_at, id) AS place
            FROM deliveries WHERE state = 'pending' AND next_at <= :now AND receiver NOT IN ({names})) AS due
        WHERE place <= :each ORDER BY next_at, id LIMIT :limit""",
        now=tx.now, each=4 * AT_ONCE_EACH, limit=4 * AT_ONCE, **values)
    chosen = [row.id for row in due if row.id not in known and room.take(row.receiver, row.job_id)]
    return [_take(tx, id_, lease) for id_ in chosen], len(chosen) < len(due)


def _take(tx: Transaction, delivery_id: int, lease: float) -> tuple[Row, list[str]]:
    row = tx.one("""UPDATE deliveries SET attempts = attempts + 1, next_at = :lease, updated_at = :now,
                    url = coalesce((SELECT url FROM webhook_endpoints WHERE id = deliveries.endpoint_id), url)
                    WHERE id = :id RETURNING *""", id=delivery_id, lease=clock.after(lease), now=tx.now)
    receivers.ensure_secret(tx, row.owner, row.receiver)
    return row, [secret.secret for secret in receivers.secrets_of(tx, row.owner, row.receiver)]


def _settle(tx: Transaction, row: Row, started_at: str, milliseconds: int, outcome: schedule.Outcome) -> None:
    """Write down the attempt and what follows from it."""
    if tx.value("SELECT attempts FROM deliveries WHERE id = :id", id=row.id) != row.attempts:
        return  # the lease ran out and another attempt has begun
    log.record(tx, row.id, row.attempts, started_at, milliseconds, outcome)
    verdict = schedule.judge(outcome, row.step)
    next_at = clock.after(verdict.delay) if verdict.state == "pending" else None
    tx.run("""UPDATE deliveries SET state = :state, note = :note, step = step + 1, next_at = :next_at, updated_at = :now
              WHERE id = :id AND state = 'pending'""",
           id=row.id, state=verdict.state, note=verdict.note, next_at=next_at, now=tx.now)
    if row.endpoint_id is None:
        return
    if verdict.state == "delivered":
        receivers.note_success(tx, row.endpoint_id)
    elif verdict.gone:
        receivers.disable(tx, row.endpoint_id, "It answered 410: it wants no more.")
    else:
        receivers.note_failure(tx, row.endpoint_id, schedule.DISABLE_AFTER)
