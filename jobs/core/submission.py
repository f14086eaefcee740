"""Accepting a job: idempotency claim, placeholder resource, row, event and tally in one transaction."""

from dataclasses import dataclass, field

from jobs.core import events, idempotency, resources, tallies
from jobs.core.idempotency import Claim
from jobs.core.states import Priority, Status
from jobs.db import Row, Transaction
from jobs.errors import Problem


@dataclass(frozen=True)
class Submission:
    """What was asked, validated. JSON members are compact JSON text, times wire text, durations whole seconds."""

    type: str
    owner: str
    queue: str
    payload: str                                  # as shown
    timeout: int
    retention: int
    max_attempts: int
    start_within: int                             # queueTtl
    payload_private: str | None = None            # as the handler gets it, where that differs
    priority: Priority = Priority.NORMAL
    tags: str = "[]"
    callback_url: str | None = None
    not_before: str | None = None
    start_by: str | None = None                   # set by the web tier: max(now, notBefore) + queueTtl
    retry_of: int | None = None
    traceparent: str | None = None
    claim: Claim | None = None                    # the Idempotency-Key
    collection: str | None = None
    resource_id: int | None = None                # an existing resource to make again (a retry)
    resource_fields: str = "{}"
    resource_retention: int = 0
    inputs: tuple[int, ...] = field(default=())   # artifacts that it reads; a retry has those of the first job as well


@dataclass(frozen=True)
class Accepted:
    """The job, and whether an earlier request with the same key had already made it."""

    job: Row
    replayed: bool = False


_INSERT = """
INSERT INTO jobs (version, owner, type, queue, status, priority, progress, payload, payload_private, payload_size, tags,
    callback_url, timeout, retention, result_size, attempt, max_attempts, created_at, updated_at, not_before, due_at, start_by,
    retry_of, resource_id, resource, traceparent)
VALUES (:version, :owner, :type, :queue, 'queued', :priority, 0, :payload, :payload_private, :payload_size, :tags,
    :callback_url, :timeout, :retention, 0, 0, :max_attempts, :now, :now, :not_before, :due_at, :start_by,
    :retry_of, :resource_id, :resource, :traceparent)
RETURNING *"""


def accept(tx: Transaction, asked: Submission) -> Accepted:
    """Store the job as queued. Raises `idempotency.KeyReused`, or `unknown-input` when an input has just expired; then
    nothing is stored."""
    if asked.claim:
        earlier = idempotency.find(tx, asked.claim)
        if earlier is not None:
            return Accepted(tx.one("SELECT * FROM jobs WHERE id = :id", id=earlier), replayed=True)
    resource = _resource(tx, asked)
    row = tx.one(
        _INSERT, version=tx.next_version(), owner=asked.owner, type=asked.type, queue=asked.queue,
        priority=asked.priority.rank, payload=asked.payload, payload_private=asked.payload_private,
        payload_size=len(asked.payload), tags=asked.tags, callback_url=asked.callback_url, timeout=asked.timeout,
        retention=asked.retention, max_attempts=asked.max_attempts, now=tx.now, not_before=asked.not_before,
        due_at=max(tx.now, asked.not_before or ""), start_by=asked.start_by, retry_of=asked.retry_of,
        resource_id=resource.id if resource else None, resource=resources.path(resource) if resource else None,
        traceparent=asked.traceparent)
    if resource:
        resources.reopen(tx, resource.id, row.id)
    if asked.claim:
        idempotency.claim(tx, asked.claim, row.id)
    _use_inputs(tx, row, asked.inputs)
    tallies.add(tx, row, Status.QUEUED, 1)
    events.write(tx, row, "job.queued")
    tx.announce(events.bell(row))
    return Accepted(row)


def _use_inputs(tx: Transaction, row: Row, inputs: tuple[int, ...]) -> None:
    """Note what the job reads. An upload does not expire before the last job that uses it is purged."""
    for artifact_id in inputs:
        if not tx.run("UPDATE artifacts SET expires_at = NULL WHERE id = :id AND state = 'whole'", id=artifact_id):
            raise Problem("unknown-input", f"The artifact {artifact_id} has just expired.")
        tx.run("INSERT INTO artifact_uses (artifact_id, job_id) VALUES (:artifact_id, :job_id) ON CONFLICT DO NOTHING",
               artifact_id=artifact_id, job_id=row.id)
    if row.retry_of is not None:
        tx.run("""INSERT INTO artifact_uses (artifact_id, job_id)
                  SELECT artifact_id, :job_id FROM artifact_uses WHERE job_id = :retry_of ON CONFLICT DO NOTHING""",
               job_id=row.id, retry_of=row.retry_of)


def _resource(tx: Transaction, asked: Submission) -> Row | None:
    if asked.collection is None:
        return None
    if asked.resource_id is not None:
        existing = resources.get(tx, asked.collection, asked.resource_id)
        if existing is not None:
            return existing
    return resources.open_(tx, asked.collection, asked.owner, asked.resource_fields, asked.resource_retention)
