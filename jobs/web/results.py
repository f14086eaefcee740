"""What a synchronous endpoint would have answered: the result itself, or the problem that stood in its way."""

import json
from collections.abc import Mapping

from flask import Response

from jobs.core import reads
from jobs.core.states import Status
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import conditional, problems

OWN_STATUS = {400, 409, 413, 415, 422, 424}  # a failed job's problem keeps these; any other is wrapped in a 409


def answer(row: Row, base_url: str, redirect: bool = False, waiting: Mapping[str, int] | None = None) -> Response:
    """The answer of GET /v1/jobs/{id}/result for this state of the job. Needs no request."""
    if not reads.is_terminal(row):
        return _pending(row, base_url, waiting)
    if row.status == Status.CANCELLED:
        response = problems.document(_problem("job-cancelled", row, base_url))
    elif row.status == Status.FAILED:
        response = problems.document(failure(row, base_url))
    elif redirect and row.resource:
        response = Response(status=303, headers={"Location": base_url + row.resource})
    elif row.result == "null":
        response = Response(status=204)
        del response.headers["Content-Type"]
    else:
        response = Response(row.result, content_type="application/json")
    response.headers["Cache-Control"] = "private, no-cache" if response.status_code < 400 else "no-store"
    response.headers.update(conditional.pace(row))
    return response


def failure(row: Row, base_url: str) -> dict:
    """The problem of a failed job as an HTTP answer's document."""
    problem = json.loads(reads.absolute(row.error, base_url))
    if problem["status"] in OWN_STATUS:
        return problem
    return _problem("job-failed", row, base_url) | {
        "detail": problem.get("detail") or problem["title"], "error": problem}


def _pending(row: Row, base_url: str, waiting: Mapping[str, int] | None) -> Response:
    response = Response(reads.render(row, base_url), 202, content_type="application/json")
    response.headers["Location"] = f"{base_url}/v1/jobs/{row.id}/result"
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(conditional.pace(row, waiting))
    return response


def _problem(slug: str, row: Row, base_url: str) -> dict:
    return Problem(slug, instance=f"/v1/jobs/{row.id}/result").members(base_url)
