"""Forgetting: a job that expired or was purged leaves its own row, emptied, and later nothing."""

from jobs import clock
from jobs.core import events, tallies
from jobs.core.states import TERMINAL, Status
from jobs.db import Row, Transaction

_TERMINAL = ", ".join(f"'{status}'" for status in sorted(TERMINAL))


def purge(tx: Transaction, job_id: int) -> Row | None:
    """Empty a terminal job's row and drop its logs and artifacts; a resource and what it names stay. None if not terminal."""
    row = tx.one(
        f"""UPDATE jobs SET version = :version, updated_at = :now, purged_at = :now, payload = 'null', payload_private = NULL,
            payload_size = 0, tags = '[]', callback_url = NULL, result = NULL, result_size = 0, error = NULL, stage = NULL,
            expires_at = NULL, traceparent = NULL
            WHERE id = :id AND purged_at IS NULL AND status IN ({_TERMINAL}) RETURNING *""",
        id=job_id, version=tx.next_version(), now=tx.now)
    if row is None:
        return None
    tallies.add(tx, row, Status(row.status), -1)
    tx.run("DELETE FROM logs WHERE job_id = :id", id=job_id)
    tx.run("DELETE FROM attempts WHERE job_id = :id", id=job_id)
    tx.run("DELETE FROM cleanups WHERE job_id = :id", id=job_id)
    tx.run("UPDATE artifacts SET state = 'doomed' WHERE job_id = :id AND resource_id IS NULL AND state = 'whole'", id=job_id)
    _release_inputs(tx, job_id)
    tx.announce(events.bell(row))
    return row


def _release_inputs(tx: Transaction, job_id: int) -> None:
    """Uploads that no other job uses expire at their own time, which may be past."""
    for use in tx.all("DELETE FROM artifact_uses WHERE job_id = :job_id RETURNING artifact_id", job_id=job_id):
        tx.run("""UPDATE artifacts SET expires_at = unused_until WHERE id = :id
                  AND NOT EXISTS (SELECT 1 FROM artifact_uses WHERE artifact_id = :id)""", id=use.artifact_id)


def bury_expired(tx: Transaction, limit: int = 200) -> int:
    """Purge jobs whose retention has ended, at most `limit`; how many there were."""
    due = tx.all("SELECT id FROM jobs WHERE expires_at <= :now AND purged_at IS NULL ORDER BY expires_at LIMIT :limit",
                 now=tx.now, limit=limit)
    return sum(1 for row in due if purge(tx, row.id))


def forget(tx: Transaction, seconds: float, limit: int = 200) -> int:
    """Delete tombstones older than `seconds`, at most `limit`; the feed's horizon moves past them."""
    old = tx.all("SELECT id, version FROM jobs WHERE purged_at <= :before ORDER BY purged_at LIMIT :limit",
                 before=clock.after(-seconds), limit=limit)
    for row in old:
        for table in ("events", "idempotency"):
            tx.run(f"DELETE FROM {table} WHERE job_id = :id", id=row.id)
        tx.run("DELETE FROM jobs WHERE id = :id", id=row.id)
    if old:
        tx.run("UPDATE meta SET value = :value WHERE name = 'horizon' AND value < :value", value=max(row.version for row in old))
    return len(old)
