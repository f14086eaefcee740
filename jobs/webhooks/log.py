"""The record of deliveries: what was tried, what came back, and trying again by hand."""

from typing import Any

from jobs.connections import Unreachable
from jobs.db import Reader, Row, Transaction, placeholders
from jobs.errors import Problem
from jobs.targets import Answer
from jobs.webhooks.schedule import Outcome

EXCERPT = 1024


def of_job(reader: Reader, job_id: int) -> list[Row]:
    """The deliveries of a job's events, the oldest first."""
    return reader.all("SELECT * FROM deliveries WHERE job_id = :id ORDER BY id", id=job_id)


def of_endpoint(reader: Reader, endpoint_id: int, before: int | None = None, limit: int = 50) -> list[Row]:
    """The deliveries to an endpoint, the newest first; `before` is the id at which the last page ended."""
    return reader.all("""SELECT * FROM deliveries WHERE endpoint_id = :endpoint AND id < :before
                         ORDER BY id DESC LIMIT :limit""", endpoint=endpoint_id, before=before or 2**62, limit=limit)


def get(reader: Reader, delivery_id: int) -> Row | None:
    """One delivery."""
    return reader.one("SELECT * FROM deliveries WHERE id = :id", id=delivery_id)


def redeliver(tx: Transaction, delivery_id: int) -> Row | None:
    """Send it (again) now: same id and body, the whole schedule ahead. None when there is no such delivery."""
    return tx.one("""UPDATE deliveries SET state = 'pending', step = 0, next_at = :now, note = NULL, updated_at = :now
                     WHERE id = :id RETURNING *""", id=delivery_id, now=tx.now)


def redeliver_failed(tx: Transaction, since: str, owner: str | None, endpoint_id: int | None = None) -> int:
    """Send again all that failed and was made at `since` or later; how many. Disabled endpoints are left out."""
    return tx.run("""
        UPDATE deliveries SET state = 'pending', step = 0, next_at = :now, note = NULL, updated_at = :now
        WHERE state = 'failed' AND created_at >= :since AND owner = coalesce(:owner, owner)
        AND coalesce(endpoint_id, 0) = coalesce(:endpoint, endpoint_id, 0)
        AND (endpoint_id IS NULL OR endpoint_id IN (SELECT id FROM webhook_endpoints WHERE disabled_at IS NULL))""",
        since=since, owner=owner, endpoint=endpoint_id, now=tx.now)


def record(tx: Transaction, delivery_id: int, attempt: int, started_at: str, milliseconds: int,
           outcome: Outcome) -> None:
    """Write down what an attempt brought."""
    answered = isinstance(outcome, Answer)
    tx.run("""INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration, status, error, detail, excerpt)
              VALUES (:delivery, :attempt, :started_at, :duration, :status, :error, :detail, :excerpt)""",
           delivery=delivery_id, attempt=attempt, started_at=started_at, duration=milliseconds,
           status=outcome.status if answered else None, error=None if answered else _kind(outcome),
           detail=None if answered else str(outcome), excerpt=_text(outcome.body) if answered else None)


def figures(reader: Reader) -> dict[str, int]:
    """How many deliveries wait for their first try, wait for another, or were given up; partial indexes count them."""
    pending, tried = "SELECT count(*) FROM deliveries WHERE state = 'pending'", "attempts > 0"
    return {"new": reader.value(f"{pending} AND NOT {tried}"), "retrying": reader.value(f"{pending} AND {tried}"),
            "failed": reader.value("SELECT count(*) FROM deliveries WHERE state = 'failed'")}


def prune(tx: Transaction, before: str, limit: int = 500) -> None:
    """Forget deliveries made before `before` that have ended, at most `limit`."""
    oldest = tx.all("SELECT id, state, created_at FROM deliveries ORDER BY id LIMIT :limit", limit=limit)
    ended = [row.id for row in oldest if row.state != "pending" and row.created_at < before]
    names, values = placeholders("old", ended)
    tx.run(f"DELETE FROM delivery_attempts WHERE delivery_id IN ({names})", **values)
    tx.run(f"DELETE FROM deliveries WHERE id IN ({names})", **values)


def render(reader: Reader, rows: list[Row], for_admin: bool) -> list[dict[str, Any]]:
    """Deliveries as they are shown, each with its attempts; excerpts of the answers for admins only."""
    names, values = placeholders("delivery", [row.id for row in rows])
    attempts: dict[int, list[dict]] = {row.id: [] for row in rows}
    for row in reader.all(f"SELECT * FROM delivery_attempts WHERE delivery_id IN ({names}) ORDER BY attempt", **values):
        attempts[row.delivery_id].append(_attempt(row, for_admin))
    return [_delivery(row, attempts[row.id]) for row in rows]


def _delivery(row: Row, attempts: list[dict]) -> dict[str, Any]:
    links = {"redeliver": f"/v1/deliveries/{row.id}:redeliver"}
    if row.job_id is not None:
        links["job"] = f"/v1/jobs/{row.job_id}"
    if row.endpoint_id is not None:
        links["endpoint"] = f"/v1/webhook-endpoints/{row.endpoint_id}"
    return {
        "id": str(row.id), "event": row.message_id, "type": row.type, "url": row.url, "state": row.state,
        "note": row.note, "idempotencyKey": row.idempotency_key, "attempts": attempts, "nextAttemptAt": row.next_at,
        "createdAt": row.created_at, "updatedAt": row.updated_at, "links": links,
    }


def _attempt(row: Row, for_admin: bool) -> dict[str, Any]:
    shown = {"attempt": row.attempt, "startedAt": row.started_at, "durationMs": row.duration, "status": row.status,
             "error": row.error, "detail": row.detail}
    return shown | ({"excerpt": row.excerpt} if for_admin else {})


def _kind(fault: Unreachable | Problem) -> str:
    return fault.kind if isinstance(fault, Unreachable) else "forbidden"


def _text(excerpt: bytes) -> str:
    """Readable whatever came: PostgreSQL's text holds no NUL."""
    return excerpt[:EXCERPT].decode("utf-8", "replace").replace("\0", "\ufffd")
