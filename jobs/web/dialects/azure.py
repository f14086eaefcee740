"""Azure's asynchronous request-reply: RequestStatus to be followed, and a status monitor, for Azure's pollers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState

from jobs import clock
from jobs.artifacts import links, records
from jobs.core import reads
from jobs.core.states import Status
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, conditional, problems, results, signed, watch
from jobs.web.api import find
from jobs.web.conditional import Asked
from jobs.web.dialects import errors, outcome, verbs
from jobs.web.downloads import send_file
from jobs.web.queries import check_known, flag, known
from jobs.web.site import base_url, site
from jobs.web.submissions import compact

blueprint = Blueprint("azure", __name__)
STATUSES = {
    Status.QUEUED: "NotStarted", Status.RUNNING: "Running", Status.SUCCEEDED: "Succeeded", Status.PARTIAL: "Succeeded",
    Status.FAILED: "Failed", Status.CANCELLED: "Canceled"}
_MODES = {"OnPending": ("OK", "Accepted", "Synchronous"), "OnComplete": ("Redirect", "Stream")}  # the default first


def render(job: Row, base_url: str) -> dict[str, Any]:
    """The status body. On success with `result` and, where the type has a collection, `resourceLocation`."""
    body = {
        "id": str(job.id), "status": STATUSES[Status(job.status)], "createdAt": job.created_at,
        "lastUpdatedAt": job.updated_at, "percentComplete": job.progress, "Location": _status_url(job, base_url)}
    if job.progress is None:
        del body["percentComplete"]
    if outcome.has_result(job):
        body["result"] = outcome.result(job)
        if job.resource:
            body["resourceLocation"] = base_url + job.resource
    elif fault := outcome.fault(job, base_url):
        members = {name: value for name, value in fault.problem.items() if name not in ("status", "code", "message")}
        body["error"] = {"code": fault.slug, "message": fault.message} | members
    return body


def render_first(job: Row, base_url: str) -> dict[str, Any]:
    """The body of the 202, the same for each repetition: Azure's pollers would take a terminal one for the result."""
    return {"id": str(job.id), "status": "NotStarted", "createdAt": job.created_at, "lastUpdatedAt": job.created_at,
            "percentComplete": 0, "Location": _status_url(job, base_url)}


def shape(problem: dict[str, Any]) -> dict[str, Any]:
    """An error of HTTP."""
    return problem | {"error": {"code": outcome.slug_of(problem), "message": outcome.explain(problem),
                                "status": outcome.canonical(problem["status"])}}


errors.speak(blueprint, shape, re.compile(r"/api(/|$)").match)


@dataclass(frozen=True)
class Followed:
    """How a client follows a RequestStatus: the modes it asked for, as it spelled them, and its signature."""

    asked: Mapping[str, str]
    on_pending: str
    on_complete: str

    @classmethod
    def by_request(cls) -> "Followed":
        """Out of the query; Problem 400."""
        chosen = {}
        for name, values in _MODES.items():
            given = request.args.get(name, values[0])
            chosen[name] = next((value for value in values if value.lower() == given.lower()), None)
            if chosen[name] is None:
                check_known(name, [given], values)
        asked = {name: request.args[name] for name in (*_MODES, signed.PARAMETER) if name in request.args}
        return cls(asked, chosen["OnPending"], chosen["OnComplete"])

    def url(self, job: Row, base_url: str, **more: str) -> str:
        """The RequestStatus of this job, followed in the same way."""
        return _status_url(job, base_url, dict(self.asked) | more)


@blueprint.record
def add_submissions(state: BlueprintSetupState) -> None:
    """`POST /api/{type}` for every type."""
    for declared in verbs.registry_of(state):
        verbs.add_submission(state, f"/api/{declared.name}", submit, declared)


def submit(type_name: str) -> Response:
    """Submit a job: 202, and where to follow it."""
    known(*_MODES, "signed")
    followed, with_signature = Followed.by_request(), flag("signed")
    accepted = verbs.submit(type_name)
    row, url = accepted.job, base_url()
    signature = {}
    if with_signature:
        expires_at = clock.after(row.retention, clock.parse(row.created_at))
        signature = {signed.PARAMETER: signed.sign(site().settings, f"/api/RequestStatus/{row.id}", expires_at)}
    monitor = f"{url}/api/operations/{row.id}"
    return verbs.answer(accepted, compact(render_first(row, url)), 202, {
        "Location": followed.url(row, url, **signature), "Operation-Location": monitor, "Azure-AsyncOperation": monitor,
        "Retry-After": "1"} | ({} if reads.is_terminal(row) else _pace(row, _patience())))


@blueprint.get("/api/RequestStatus/<id:job_id>")
@auth.signable
def get_request_status(job_id: int) -> Response:
    """The status while the job is active, then what came of it, each in the mode that was asked for."""
    known(*_MODES, signed.PARAMETER)
    followed, since = Followed.by_request(), watch.position()
    row, asked, patience = find(job_id), verbs.asked(), _patience()
    if outcome.has_result(row):
        return _complete(row, followed, asked.base_url)

    def respond(row: Row) -> Response:
        if outcome.has_result(row):  # it ended while the request was held: the way to the result needs the database
            return _see_other(row, followed.url(row, asked.base_url, OnPending="OK"))
        return _pending_or_failed(row, followed, asked, patience)

    wait = conditional.MAX_WAIT if followed.on_pending == "Synchronous" else 0
    return verbs.hold(row, since, wait, respond, verbs.gone_in(shape, asked.base_url))


@blueprint.delete("/api/RequestStatus/<id:job_id>")
@blueprint.post("/api/operations/<id:job_id>:cancel")
def cancel(job_id: int) -> Response:
    """Cancel the job, or ask it to stop; 409 when it has ended."""
    known()
    row = verbs.cancel_active(verbs.steered(job_id))
    response = Response(compact(render(row, base_url())), 202, content_type="application/json",
                        headers=_pace(row, _patience()))
    response.headers.update({"Location": _status_url(row, base_url()), "Cache-Control": "no-store"})
    return response


@blueprint.get("/api/operations/<id:job_id>")
def get_operation(job_id: int) -> Response:
    """The status monitor: 200 whatever the job's fate, and never a redirect."""
    known()
    return _status(find(job_id), verbs.asked(), _patience())


def _status(row: Row, asked: Asked, patience: int) -> Response:
    tag = conditional.etag(row, "azure")
    response = conditional.view(row, asked, tag, lambda: compact(render(row, asked.base_url)))
    response.headers.update(_pace(row, patience))
    return response


def _pending_or_failed(row: Row, followed: Followed, asked: Asked, patience: int) -> Response:
    """Needs neither request nor database."""
    accepted = followed.on_pending == "Accepted"
    if row.status == Status.FAILED or (row.status == Status.CANCELLED and accepted):
        return _failure(row, asked.base_url)
    if not accepted:
        return _status(row, asked, patience)
    response = Response(compact(render(row, asked.base_url)), 202, content_type="application/json",
                        headers=_pace(row, patience))
    response.headers.update({"Location": followed.url(row, asked.base_url), "Cache-Control": "no-store"})
    return response


def _failure(row: Row, base_url: str) -> Response:
    """The problem in its own 4xx, with the members of the status body."""
    if row.status == Status.FAILED:
        problem = results.failure(row, base_url)
    else:
        problem = Problem("job-cancelled").members(base_url)
    status = {name: value for name, value in render(row, base_url).items() if name != "status"}
    error = shape(problem)["error"] | status.get("error", {})
    return problems.document(problem | status | {"error": error}, conditional.pace(row))


def _complete(row: Row, followed: Followed, base_url: str) -> Response:
    """The way to the result, or the result."""
    left = [each for each in records.of_job(site().db.read(), row.id) if each.kind == "file"]
    only = left[0] if len(left) == 1 else None
    if followed.on_complete == "Stream":
        response = send_file(only) if only else results.answer(row, base_url)
        response.headers.update(conditional.pace(row))
        return response
    settings = site().settings
    expires_at = clock.after(settings.link_lifetime)
    if row.resource:
        target = base_url + row.resource
        if signed.PARAMETER in followed.asked:
            target = _signed(row.resource, expires_at, base_url)
    elif only:
        target = links.url(settings, only.id, only.name, expires_at, base_url)
    else:
        target = _signed(f"/v1/jobs/{row.id}/result", expires_at, base_url)
    return _see_other(row, target)


def _signed(path: str, expires_at: str, base_url: str) -> str:
    return f"{base_url}{path}?{urlencode({signed.PARAMETER: signed.sign(site().settings, path, expires_at)})}"


def _see_other(row: Row, target: str) -> Response:
    return Response(status=303, headers={"Location": target, "Cache-Control": "no-store"} | conditional.pace(row))


def _status_url(job: Row, base_url: str, query: Mapping[str, str] | None = None) -> str:
    return f"{base_url}/api/RequestStatus/{job.id}" + (f"?{urlencode(query)}" if query else "")


def _patience() -> int:
    """Whole seconds between two looks at a job of which nothing is known."""
    return max(1, math.ceil(site().settings.retry_after))


def _pace(row: Row, patience: int) -> dict[str, str]:
    if reads.is_terminal(row):
        return conditional.pace(row)
    seconds = conditional.retry_after(row)
    return {"Retry-After": str(seconds if row.eta else max(seconds, patience))}
