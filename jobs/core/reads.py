"""Reading jobs: one row, a page, the changes since a version; and the one form in which a job is shown.

The database holds ready JSON fragments; `render` puts them together. Equal versions render to equal bytes.
"""

import json

from jobs.core.states import ACTIVE, RETRYABLE, TERMINAL, WITH_RESULT, Priority, Status
from jobs.db import Reader, Row, placeholders

LIST_LIMIT = 4096   # characters of payload or result that a list still shows
_WITHOUT_BULK = """id, version, owner, type, queue, status, priority, progress, stage, eta,
    CASE WHEN payload_size <= {limit} THEN payload END AS payload, payload_size, tags, callback_url, timeout,
    CASE WHEN result_size <= {limit} THEN result END AS result, result_size, error, attempt, max_attempts, next_attempt_at,
    created_at, updated_at, started_at, heartbeat_at, finished_at, cancel_requested_at, not_before, due_at, expires_at,
    purged_at, retry_of, resource_id, resource, retention, traceparent""".format(limit=LIST_LIMIT)


def get(reader: Reader, job_id: int) -> Row | None:
    """The whole row of a job; a tombstone has `purged_at`."""
    return reader.one("SELECT * FROM jobs WHERE id = :id", id=job_id)


def changes(reader: Reader, since: int, limit: int, owner: str | None = None, whole: bool = False) -> list[Row]:
    """Jobs changed after version `since`, in commit order, each once with its latest state; tombstones among them.

    Big payloads and results are left out unless `whole`.
    """
    columns = "*" if whole else _WITHOUT_BULK
    of_owner = "" if owner is None else "AND owner = :owner"
    return reader.all(f"SELECT {columns} FROM jobs WHERE version > :since {of_owner} ORDER BY version LIMIT :limit",
                      since=since, limit=limit, owner=owner)


def latest(reader: Reader) -> int:
    """The version of the last visible change."""
    return reader.value("SELECT max(version) FROM jobs") or 0


def horizon(reader: Reader) -> int:
    """A cursor behind this version may have missed deleted tombstones."""
    return reader.value("SELECT value FROM meta WHERE name = 'horizon'") or 0


def page(reader: Reader, limit: int, before: int | None = None, owner: str | None = None, status: tuple[str, ...] = (),
         type: tuple[str, ...] = (), tag: tuple[str, ...] = (), ids: tuple[int, ...] | None = None, q: str | None = None,
         created_after: str | None = None, created_before: str | None = None, updated_after: str | None = None,
         either: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()) -> list[Row]:
    """Jobs, newest first, with ids below `before` (keyset); tombstones left out. Filters join by AND, values by OR.

    `either` holds pairs (statuses, types), of which each asks for one of these statuses or one of these types.
    """
    conditions, values = ["purged_at IS NULL"], {}

    def where(condition: str, **named) -> None:
        conditions.append(condition)
        values.update(named)

    if before is not None:
        where("id < :before", before=before)
    if owner is not None:
        where("owner = :owner", owner=owner)
    # The index of statuses is for one status of all owners; else it would lead through everybody's jobs, or to a sort.
    by_status = "status" if owner is None and len(status) == 1 else "coalesce(status, '')"
    for name, expression, wanted in (("status", by_status, status), ("type", "type", type), ("id", "id", ids)):
        if wanted:
            names, named = placeholders(f"{name}_", wanted)
            where(f"{expression} IN ({names})", **named)
    for number, (statuses, types) in enumerate(either):
        of_status, status_values = placeholders(f"either_status{number}_", statuses)
        of_type, type_values = placeholders(f"either_type{number}_", types)
        where(f"(status IN ({of_status}) OR type IN ({of_type}))", **status_values, **type_values)
    for number, wanted in enumerate(tag):
        where(f"tags LIKE :tag{number} ESCAPE '!'", **{f"tag{number}": f"%{like(json.dumps(wanted, ensure_ascii=False))}%"})
    if q:
        where("(payload LIKE :q ESCAPE '!' OR tags LIKE :q ESCAPE '!' OR type LIKE :q ESCAPE '!' OR error LIKE :q ESCAPE '!' "
              "OR cast(id AS text) = :exact)", q=f"%{like(q)}%", exact=q)
    if created_after:
        where("created_at > :created_after", created_after=created_after)
    if created_before:
        where("created_at < :created_before", created_before=created_before)
    if updated_after:
        where("updated_at > :updated_after", updated_after=updated_after)
    return reader.all(f"SELECT {_WITHOUT_BULK} FROM jobs WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT :limit",
                      limit=limit, **values)


def render(job: Row, base_url: str) -> str:
    """The job as JSON text (contract, section 1). Cut payloads and results are left out and `truncated` says so."""
    status = job.status
    members = [
        ("id", f'"{job.id}"'), ("version", str(job.version)), ("type", _text(job.type)), ("status", f'"{status}"'),
        ("progress", _plain(job.progress)), ("stage", _text(job.stage)), ("eta", _text(job.eta)),
        ("priority", f'"{Priority.of(job.priority)}"'), ("payload", job.payload), ("tags", job.tags),
        ("callbackUrl", _text(job.callback_url)), ("timeout", str(job.timeout)),
        ("result", job.result if status in WITH_RESULT else None),
        ("error", absolute(job.error, base_url)),
        ("attempt", str(job.attempt)), ("maxAttempts", str(job.max_attempts)), ("nextAttemptAt", _text(job.next_attempt_at)),
        ("createdAt", _text(job.created_at)), ("updatedAt", _text(job.updated_at)), ("startedAt", _text(job.started_at)),
        ("heartbeatAt", _text(job.heartbeat_at)), ("finishedAt", _text(job.finished_at)),
        ("cancelRequestedAt", _text(job.cancel_requested_at)), ("notBefore", _text(job.not_before)),
        ("expiresAt", _text(job.expires_at)), ("retryOf", _text(str(job.retry_of) if job.retry_of else None)),
        ("resource", _text(job.resource)), ("owner", _text(job.owner)), ("links", json.dumps(links(job), separators=(",", ":"))),
        ("truncated", "true" if job.payload is None or (status in WITH_RESULT and job.result is None) else None),
    ]
    return "{" + ",".join(f'"{name}":{value}' for name, value in members if value is not None) + "}"


def links(job: Row) -> dict[str, str]:
    """What can be done with the job now."""
    path = f"/v1/jobs/{job.id}"
    found = {"self": path} | {name: f"{path}/{name}" for name in ("events", "logs", "attempts", "artifacts", "result")}
    if job.status in ACTIVE:
        found["cancel"] = f"{path}:cancel"
    if job.status in RETRYABLE:
        found["retry"] = f"{path}:retry"
    return found


def summary(job: Row) -> dict:
    """What a progress frame tells."""
    return {"status": job.status, "progress": job.progress, "stage": job.stage, "eta": job.eta, "attempt": job.attempt,
            "version": job.version, "updatedAt": job.updated_at}


def is_terminal(job: Row) -> bool:
    """Whether nothing can change any more."""
    return Status(job.status) in TERMINAL


def absolute(problem: str | None, base_url: str) -> str | None:
    """A stored problem's JSON with the absolute `type` of the public URL in force."""
    return problem and problem.replace('{"type":"/problems/', f'{{"type":{json.dumps(base_url)[:-1]}/problems/', 1)


def _text(value: str | None) -> str:
    return "null" if value is None else json.dumps(value, ensure_ascii=False)


def _plain(value: int | None) -> str:
    return "null" if value is None else str(value)


def like(text: str) -> str:
    """The text as part of a LIKE pattern whose ESCAPE is `!`."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
