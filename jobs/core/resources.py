"""The business resource that a job makes: a placeholder at submission, filled when the job ends, outliving it."""

import json
from typing import Any

from jobs import clock
from jobs.core import events
from jobs.core.states import Status
from jobs.db import Reader, Row, Transaction, placeholders

STATUSES = ("processing", "ready", "failed", "cancelled")
_STATUS = {Status.SUCCEEDED: "ready", Status.PARTIAL: "ready", Status.FAILED: "failed", Status.CANCELLED: "cancelled"}


def open_(tx: Transaction, collection: str, owner: str, fields: str, retention: int) -> Row:
    """Make the placeholder; `fields` is a JSON object of the type's own members."""
    return tx.one("""INSERT INTO resources (collection, owner, status, fields, retention, created_at, updated_at)
                     VALUES (:collection, :owner, 'processing', :fields, :retention, :now, :now) RETURNING *""",
                  collection=collection, owner=owner, fields=fields, retention=retention, now=tx.now)


def reopen(tx: Transaction, resource_id: int, job_id: int) -> None:
    """Attach the resource to the job that (again) makes it."""
    tx.run("""UPDATE resources SET status = 'processing', job_id = :job_id, updated_at = :now, expires_at = NULL
              WHERE id = :id""", id=resource_id, job_id=job_id, now=tx.now)


def follow(tx: Transaction, job: Row, fields: str | None = None) -> None:
    """Let the resource follow its job to the end. Without `fields` an object result fills it."""
    if job.resource_id is None:
        return
    row = tx.one("SELECT * FROM resources WHERE id = :id AND job_id = :job_id", id=job.resource_id, job_id=job.id)
    if row is None:
        return  # deleted meanwhile, or made anew by a later job
    status = _STATUS[Status(job.status)]
    filled = row.fields
    if status == "ready":
        filled = _merge(row.fields, fields or job.result)
        tx.run("UPDATE artifacts SET resource_id = :id WHERE job_id = :job_id AND state = 'whole'", id=row.id, job_id=job.id)
    tx.run("UPDATE resources SET status = :status, fields = :fields, updated_at = :now, expires_at = :expires_at WHERE id = :id",
           id=row.id, status=status, fields=filled, now=tx.now, expires_at=clock.after(row.retention))
    if status in ("ready", "failed"):
        events.write(tx, job, f"{singular(row.collection)}.{status}", subject=path(row))


def get(reader: Reader, collection: str, resource_id: int) -> Row | None:
    """One resource."""
    return reader.one("SELECT * FROM resources WHERE collection = :collection AND id = :id",
                      collection=collection, id=resource_id)


def page(reader: Reader, collection: str, limit: int, before: int | None = None, owner: str | None = None,
         status: tuple[str, ...] = (), created_after: str | None = None) -> list[Row]:
    """Resources of a collection, newest first, with ids below `before` (keyset)."""
    names, wanted = placeholders("status", status)
    conditions = ["collection = :collection"]
    conditions += ["id < :before"] if before is not None else []
    conditions += ["owner = :owner"] if owner is not None else []
    conditions += [f"status IN ({names})"] if status else []
    conditions += ["created_at > :created_after"] if created_after else []
    return reader.all(f"SELECT * FROM resources WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT :limit",
                      collection=collection, limit=limit, before=before, owner=owner, created_after=created_after, **wanted)


def delete(tx: Transaction, resource_id: int) -> bool:
    """Remove the resource and what it names; False while it is being made, or when it is gone already."""
    if not tx.run("DELETE FROM resources WHERE id = :id AND status <> 'processing'", id=resource_id):
        return False
    tx.run("UPDATE artifacts SET state = 'doomed' WHERE resource_id = :id AND state = 'whole'", id=resource_id)
    return True


def expire(tx: Transaction, limit: int) -> int:
    """Remove resources whose retention has ended, at most `limit`; how many there were."""
    due = tx.all("SELECT id FROM resources WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit", now=tx.now, limit=limit)
    return sum(delete(tx, row.id) for row in due)


def path(row: Row) -> str:
    """Where the resource is read."""
    return f"/v1/{row.collection}/{row.id}"


def render(row: Row) -> dict[str, Any]:
    """The resource as it is shown; the type's own members never hide the standard ones."""
    standard = {"id": str(row.id), "status": row.status, "job": f"/v1/jobs/{row.job_id}"}
    own = {name: value for name, value in json.loads(row.fields).items() if name not in standard}
    return standard | own | {"createdAt": row.created_at, "updatedAt": row.updated_at, "expiresAt": row.expires_at}


def singular(collection: str) -> str:
    """The name of one member: videos → video, article-exports → article-export."""
    return collection[:-3] + "y" if collection.endswith("ies") else collection.removesuffix("s")


def _merge(fields: str, more: str | None) -> str:
    members = json.loads(more) if more else None
    return json.dumps(json.loads(fields) | members, ensure_ascii=False) if isinstance(members, dict) else fields
