"""Steering jobs: cancel, retry, purge."""

from typing import Any

from flask import Blueprint, Response

from jobs.core import lifecycle, reads, tombstones
from jobs.core.states import RETRYABLE, Priority, Status
from jobs.core.submission import Submission
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, bodies, conditional, submissions
from jobs.web.api import find, known
from jobs.web.site import base_url, site
from jobs.work.job_type import OPTIONS

blueprint = Blueprint("steering", __name__)


@blueprint.delete("/v1/jobs/<id:job_id>")
@blueprint.post("/v1/jobs/<id:job_id>:cancel")
def cancel(job_id: int) -> Response:
    """Ask the job to stop: 200 when it is cancelled, 202 when its worker has been asked."""
    row = _steered(job_id)
    row = cancel_job(row)
    response = Response(reads.render(row, base_url()), 200 if row.status == Status.CANCELLED else 202, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post("/v1/jobs/<id:job_id>:retry")
def retry(job_id: int) -> Response:
    """Do the same again, as a new job."""
    row = _steered(job_id)
    body = bodies.read_object(optional=True)
    asked = prepare_retry(row, body)
    declared = submissions.find_type(row.type)
    return submissions.submit(auth.caller(), declared, asked, body)


@blueprint.post("/v1/jobs/<id:job_id>:purge")
def purge(job_id: int) -> Response:
    """Forget a job that has ended."""
    row = _steered(job_id)
    if site().db.write(lambda tx: tombstones.purge(tx, row.id)) is None:
        raise illegal(row, "purged")
    return Response(status=204)


def cancel_job(row: Row) -> Row:
    """Cancel or ask to; the job as it stands then. Problem 409 when it has ended otherwise."""
    now = site().db.write(lambda tx: lifecycle.request_cancel(tx, row.id))
    if now is None:
        now = reads.get(site().db.read(), row.id)
        if now.status != Status.CANCELLED:
            raise illegal(now, "cancelled")
    return now


def prepare_retry(row: Row, overrides: dict[str, Any]) -> Submission:
    """The submission that repeats this job, with options of its own. Problem 409 when it has not failed in any way."""
    if row.status not in RETRYABLE:
        raise illegal(row, "retried")
    unknown = [name for name in overrides if name not in OPTIONS]
    if unknown:
        raise Problem("invalid-payload", errors=[{"pointer": f"#/{name}", "detail": "Not an option."} for name in unknown])
    declared = submissions.find_type(row.type)
    kept = {"priority": str(Priority.of(row.priority)), "callbackUrl": row.callback_url, "tags": bodies.parse(row.tags.encode()),
            "timeout": row.timeout, "maxAttempts": row.max_attempts}
    payload = bodies.parse((row.payload_private or row.payload).encode())
    fresh = submissions.prepare(auth.caller(), declared, payload, kept | overrides)
    return Submission(**vars(fresh) | {"owner": row.owner, "retry_of": row.id, "resource_id": row.resource_id})


def illegal(row: Row, verb: str) -> Problem:
    """The 409 that names the state which stands in the way."""
    return Problem("illegal-transition", f"A job that is {row.status} cannot be {verb}.", jobStatus=row.status)


def _steered(job_id: int) -> Row:
    known("wait")
    row = find(job_id)
    auth.steering(row.owner)
    conditional.check_if_match(row)
    return row
