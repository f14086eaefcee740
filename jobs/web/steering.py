"""Steering one job: cancel, retry, purge. `bulk` decides about many jobs by the same functions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response

from jobs.core import audit, lifecycle, reads, tombstones
from jobs.core.access import Caller
from jobs.core.audit import Act, Actor
from jobs.core.states import ACTIVE, RETRYABLE, TERMINAL, Priority, Status
from jobs.core.submission import Submission
from jobs.db import Row, Transaction
from jobs.errors import Problem
from jobs.web import auth, bodies, conditional, negotiation, submissions
from jobs.web.api import find
from jobs.web.queries import known
from jobs.web.site import base_url, site

blueprint = Blueprint("steering", __name__)
blueprint.before_request(negotiation.check)
Check = Callable[[Row], None]
VERBS = {  # verb → the states in which it is allowed, and how one says that it was not
    "cancel": (ACTIVE | {Status.CANCELLED}, "cancelled"),
    "retry": (RETRYABLE, "retried"),
    "purge": (TERMINAL, "purged"),
}


@blueprint.delete("/v1/jobs/<id:job_id>")
@blueprint.post("/v1/jobs/<id:job_id>:cancel")
def cancel(job_id: int) -> Response:
    """Ask the job to stop: 200 when it is cancelled, 202 when its worker has been asked."""
    known()
    row = cancel_job(_steered(job_id), conditional.if_match())
    return _shown(row, 200 if row.status == Status.CANCELLED else 202)


@blueprint.post("/v1/jobs/<id:job_id>:retry")
def retry(job_id: int) -> Response:
    """Do the same again, as a new job."""
    known("wait")
    row = _steered(job_id)
    caller, body = auth.caller(), bodies.read_object(optional=True)
    declared = submissions.find_type(row.type)
    earlier = submissions.repeated(caller, declared, body)
    if earlier:
        return earlier
    conditional.if_match()(row)
    return submissions.submit(caller, declared, prepare_retry(row, body), body)


@blueprint.post("/v1/jobs/<id:job_id>:purge")
def purge(job_id: int) -> Response:
    """Forget a job that has ended."""
    known()
    purge_job(_steered(job_id), conditional.if_match())
    return Response(status=204)


def cancel_job(row: Row, check: Check = lambda row: None) -> Row:
    """Cancel or ask to; the job as it stands then. Problem 409 when it has ended otherwise."""
    actor = auth.actor()
    return site().db.write(lambda tx: cancel_now(tx, row.id, actor, check))


def purge_job(row: Row, check: Check = lambda row: None) -> None:
    """Forget a job that has ended. Problem 409 while it is active."""
    actor = auth.actor()
    site().db.write(lambda tx: purge_now(tx, row.id, actor, check))


def cancel_now(tx: Transaction, job_id: int, actor: Actor, check: Check = lambda row: None) -> Row:
    """The same inside a transaction; `check(row)` may object. Problems 409, and 410 for a tombstone."""
    row = _current(tx, job_id, check)
    now = lifecycle.request_cancel(tx, job_id)
    if now is None and row.status != Status.CANCELLED:
        raise illegal(row, "cancel")
    if now and now.version != row.version:       # asking again changes nothing
        audit.note(tx, actor, Act.CANCEL, f"/v1/jobs/{row.id}", row.owner, type=row.type, status=row.status)
    return now or row


def purge_now(tx: Transaction, job_id: int, actor: Actor, check: Check = lambda row: None) -> None:
    """Forget the job inside a transaction. Problems as in `cancel_now`."""
    row = _current(tx, job_id, check)
    if tombstones.purge(tx, job_id) is None:
        raise illegal(row, "purge")
    audit.note(tx, actor, Act.PURGE, f"/v1/jobs/{row.id}", row.owner, type=row.type, status=row.status)


def prepare_retry(row: Row, overrides: Mapping[str, Any], caller: Caller | None = None, options_at: str = "#") -> Submission:
    """The submission that repeats this job, with options of its own. Problem 409 when it has not failed in any way."""
    if row.status not in RETRYABLE:
        raise illegal(row, "retry")
    kept = {"priority": str(Priority.of(row.priority)), "callbackUrl": row.callback_url,
            "tags": bodies.parse(row.tags.encode()), "timeout": row.timeout, "maxAttempts": row.max_attempts}
    payload = bodies.parse((row.payload_private or row.payload).encode())
    fresh = submissions.prepare(caller or auth.caller(), submissions.find_type(row.type), payload,
                                kept | dict(overrides), at="#/payload", options_at=options_at, again=True)
    return replace(fresh, owner=row.owner, retry_of=row.id, resource_id=row.resource_id)


def illegal(row: Row, verb: str) -> Problem:
    """The 409 that names the state which stands in the way."""
    detail = f"A job that is {row.status} cannot be {VERBS[verb][1]}."
    return Problem("illegal-transition", detail, jobStatus=row.status)


def _current(tx: Transaction, job_id: int, check: Check) -> Row:
    row = reads.get(tx, job_id)
    if row is None or row.purged_at:
        raise Problem("gone")
    check(row)
    return row


def _steered(job_id: int) -> Row:
    row = find(job_id)
    auth.steering(row.owner)
    return row


def _shown(row: Row, status: int) -> Response:
    response = Response(reads.render(row, base_url()), status, content_type="application/json")
    response.headers.update({"Content-Location": f"{base_url()}/v1/jobs/{row.id}", "ETag": conditional.etag(row),
                             "Cache-Control": "no-store"} | conditional.pace(row))
    return response
