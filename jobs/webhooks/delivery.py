"""The sender: takes what is due, posts it, and writes down what came back. One per server, inside the dispatcher.

A delivery is claimed by moving its next attempt ahead by a lease; if the sender is killed, the delivery falls due again
by itself. What is written after an attempt is guarded by the attempt's number, so a late sender writes nothing.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable

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
_MARGIN = 15.0             # seconds by which a lease outlives the longest attempt

logger = logging.getLogger(__name__)


class Sender:
    """Call `tick` a few times a second; it returns soon. Threads of its own do the posting and refill themselves."""

    def __init__(self, db: Database, settings: Settings, guard: Guard):
        self._db = db
        self._timeout = settings.callback_timeout
        self._guard = guard
        self._lock = threading.Lock()           # held by whoever hands out work
        self._idle = threading.Condition()      # guards the three below
        self._under_way: dict[int, tuple[str, float]] = {}  # delivery id → receiver, when it began
        self._late: set[str] = set()            # receivers that let the last attempt time out
        self._closing = False
        self._pruned_at = clock.monotonic()

    def tick(self) -> None:
        """Turn new events into deliveries, and start those that are due."""
        while outbox.follow(self._db):
            pass
        self._start_due()
        if clock.monotonic() - self._pruned_at > _PRUNE_EVERY:
            self._pruned_at = clock.monotonic()
            self._db.write(lambda tx: log.prune(tx, clock.after(-KEEP)), durable=False)

    def close(self, seconds: float = 5.0) -> bool:
        """Start nothing more, and wait up to `seconds` for what is under way. False: some of it will be repeated."""
        with self._idle:
            self._closing = True
        return self.settled(seconds)

    def settled(self, seconds: float) -> bool:
        """Wait up to `seconds` until nothing is under way."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._under_way, seconds)

    # Taking

    def _start_due(self) -> None:
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            for row, secrets in self._claim():
                threading.Thread(target=self._deliver, args=(row, secrets), daemon=True).start()
        finally:
            self._lock.release()

    def _claim(self) -> list[tuple[Row, list[str]]]:
        with self._idle:
            if self._closing:
                return []
            room, known = _Room(self._under_way.values(), self._late), set(self._under_way)
        chosen = [row for row in self._due(room) if row.id not in known and room.take(row.receiver)]
        if not chosen:
            return []
        with self._idle:
            self._under_way.update((row.id, (row.receiver, clock.monotonic())) for row in chosen)
        claimed = []
        try:
            claimed = self._db.write(lambda tx: _claim(tx, chosen, self._timeout + _MARGIN), durable=False)
        finally:
            self._ended({row.id for row in chosen} - {row.id for row, _ in claimed})
        return claimed

    def _ended(self, ids: set[int]) -> None:
        with self._idle:
            for id_ in ids:
                del self._under_way[id_]
            self._idle.notify_all()

    def _due(self, room: "_Room") -> list[Row]:
        """What is due, the oldest first, without the receivers that have no room left."""
        names, values = placeholders("full", room.full() or [""])
        return self._db.read().all(f"""
            SELECT id, receiver, attempts FROM (
                SELECT id, receiver, attempts, next_at,
                       row_number() OVER (PARTITION BY receiver ORDER BY next_at, id) AS place
                FROM deliveries WHERE state = 'pending' AND next_at <= :now AND receiver NOT IN ({names})) AS due
            WHERE place <= :each ORDER BY next_at, id LIMIT :limit""",
            now=clock.wire(clock.now()), each=AT_ONCE_EACH, limit=4 * AT_ONCE, **values)

    # Posting

    def _deliver(self, row: Row, secrets: list[str]) -> None:
        try:
            self._attempt(row, secrets)
        except StorageUnavailable:
            logger.warning("delivery %s was tried, but the database could not be written; it will be repeated", row.id)
        except Exception:
            logger.exception("delivery %s stopped on a fault of ours; it will be repeated", row.id)
        finally:
            self._ended({row.id})
        try:
            self._start_due()
        except StorageUnavailable:
            pass  # the next tick tries again

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
        with self._idle:
            if isinstance(outcome, Unreachable) and outcome.kind in ("timeout", "dns"):
                self._late.add(receiver)
            else:
                self._late.discard(receiver)


class _Room:
    """How much may still be started. Slow receivers have a few places of their own and take none from the others."""

    def __init__(self, under_way: Iterable[tuple[str, float]], late: set[str]):
        under_way = list(under_way)
        patience = clock.monotonic() - SLOW_AFTER
        self._slow = late | {receiver for receiver, began in under_way if began < patience}
        self._busy = Counter(receiver for receiver, _ in under_way)

    def full(self) -> list[str]:
        """The receivers for which nothing can be started."""
        return [receiver for receiver in self._slow | set(self._busy) if not self._has_place(receiver)]

    def take(self, receiver: str) -> bool:
        """Start one more delivery to this receiver, if there is room."""
        if not self._has_place(receiver):
            return False
        self._busy[receiver] += 1
        return True

    def _has_place(self, receiver: str) -> bool:
        slow = sum(self._busy[name] for name in self._slow)
        quick = self._busy.total() - slow
        if slow + quick >= AT_MOST:
            return False
        if receiver in self._slow:
            return slow < SLOW_AT_ONCE and not self._busy[receiver]
        return quick < AT_ONCE and self._busy[receiver] < AT_ONCE_EACH


def _claim(tx: Transaction, chosen: list[Row], lease: float) -> list[tuple[Row, list[str]]]:
    """Take these for one attempt, each with the secrets that sign it."""
    claimed = []
    for seen in chosen:
        row = tx.one("""UPDATE deliveries SET attempts = attempts + 1, next_at = :lease, updated_at = :now,
                        url = coalesce((SELECT url FROM webhook_endpoints WHERE id = deliveries.endpoint_id), url)
                        WHERE id = :id AND state = 'pending' AND attempts = :seen RETURNING *""",
                     id=seen.id, seen=seen.attempts, lease=clock.after(lease), now=tx.now)
        if row is not None:
            receivers.ensure_secret(tx, row.owner, row.receiver)
            claimed.append((row, [secret.secret for secret in receivers.secrets_of(tx, row.owner, row.receiver)]))
    return claimed


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
