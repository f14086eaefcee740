"""Reading one job: its record, its result, its stream, its attempts."""

import json
from typing import Any

from flask import Blueprint, Response, request

from jobs.core import access, reads
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, backlog, conditional, negotiation, results, signed, watch
from jobs.web.conditional import Asked
from jobs.web.problems import not_found
from jobs.web.queries import flag, instant, known, number, page_limit
from jobs.web.site import base_url, site

__all__ = ["find", "flag", "instant", "known", "number", "page_limit"]  # what views of other rooms use
blueprint = Blueprint("api", __name__)
blueprint.before_request(negotiation.check)


@blueprint.get("/v1/jobs/<id:job_id>")
def get_job(job_id: int) -> Response:
    """The job, whatever its fate; with `wait` held until it changes (If-None-Match) or ends."""
    known("wait")
    since = watch.position()
    row = find(job_id)
    asked = Asked.by_request(base_url())
    until, wait = watch.is_terminal, asked.wait
    if asked.if_none_match:
        until = watch.moved_from(row.version)
        if not conditional.matches(asked.if_none_match, conditional.etag(row)):
            wait = 0  # it has moved already
    return watch.poll_job(row, auth.caller(), since=since, wait=wait, until=until,
                          respond=lambda row: conditional.job(row, asked))


@blueprint.get("/v1/jobs/<id:job_id>/result")
@auth.signable
def get_result(job_id: int) -> Response:
    """What the synchronous endpoint would have answered."""
    known("redirect", signed.PARAMETER)
    redirect = flag("redirect")
    return results.answer(find(job_id), base_url(), redirect, backlog.lengths())


@blueprint.get("/v1/jobs/<id:job_id>/events")
@negotiation.produces(negotiation.EVENTS)
def stream_job(job_id: int) -> Response:
    """Server-sent events: progress, then done."""
    known()
    since, last = watch.position(), request.headers.get("Last-Event-ID")
    return watch.stream_job(find(job_id), auth.caller(), since=since, last_event_id=last)


@blueprint.get("/v1/jobs/<id:job_id>/attempts")
def get_attempts(job_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Every attempt at the job: who, when, and what came of it."""
    known()
    find(job_id)
    rows = site().db.read().all("SELECT * FROM attempts WHERE job_id = :id ORDER BY attempt", id=job_id)
    return {"attempts": [{
        "attempt": row.attempt, "worker": row.worker, "startedAt": row.started_at, "endedAt": row.ended_at,
        "outcome": row.outcome, "error": json.loads(reads.absolute(row.error, base_url()) or "null")} for row in rows]
    }, {"Cache-Control": "private, no-cache"}


def find(job_id: int) -> Row:
    """The job, if this caller may see it. Problems: 404, alike for foreign and unknown; 410 for a tombstone."""
    row = reads.get(site().db.read(), job_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    if row.purged_at:
        raise Problem("gone")
    return row
