"""Operations in snake case: `op-901`, pending, running, succeeded, failed, canceled."""

import json
import re
from typing import Any

from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState

from jobs import clock
from jobs.core import reads
from jobs.core.states import Status
from jobs.db import Row
from jobs.web import conditional, negotiation, watch
from jobs.web.api import find
from jobs.web.conditional import Asked
from jobs.web.dialects import errors, outcome, verbs
from jobs.web.queries import known
from jobs.web.site import base_url
from jobs.web.submissions import compact

blueprint = Blueprint("snake", __name__)
blueprint.before_request(negotiation.check)
STATUSES = {
    Status.QUEUED: "pending", Status.RUNNING: "running", Status.SUCCEEDED: "succeeded", Status.PARTIAL: "succeeded",
    Status.FAILED: "failed", Status.CANCELLED: "canceled"}


def render(job: Row) -> dict[str, Any]:
    """The job as an operation; when done with `completed_at` and one of `result` and `error`."""
    operation = {
        "id": f"op-{job.id}", "status": STATUSES[Status(job.status)], "done": reads.is_terminal(job),
        "created_at": _time(job.created_at), "metadata": json.loads(job.payload) | {"operation": {
            "progress": job.progress, "stage": job.stage, "updated_at": _time(job.updated_at), "type": job.type}}}
    if reads.is_terminal(job):
        operation["completed_at"] = _time(job.finished_at)
    if outcome.has_result(job):
        operation["result"] = outcome.result(job)
    elif fault := outcome.fault(job):
        code = outcome.upper_snake(fault.slug) if fault.status else "CANCELED"
        operation["error"] = {"code": code, "message": fault.message}
    return operation


def shape(problem: dict[str, Any]) -> dict[str, Any]:
    """An error of HTTP; its code is written like that of an operation."""
    return problem | {"error": {
        "code": outcome.upper_snake(outcome.slug_of(problem)), "message": outcome.explain(problem),
        "status": outcome.canonical(problem["status"])}}


errors.speak(blueprint, shape, re.compile(r"/operations(/|$)").match)


@blueprint.record
def add_submissions(state: BlueprintSetupState) -> None:
    """`POST /{collection}` for every type that owns one."""
    for declared in verbs.registry_of(state):
        if declared.collection:
            verbs.add_submission(state, f"/{declared.collection}", submit, declared)


def submit(type_name: str) -> Response:
    """Submit a job: 202 and the operation."""
    known()
    accepted = verbs.submit(type_name)
    row = accepted.job
    return verbs.answer(accepted, compact(render(row)), 202, {
        "Location": f"{base_url()}/operations/op-{row.id}", "Retry-After": str(conditional.retry_after(row))})


@blueprint.get("/operations")
def list_operations() -> Response:
    """The caller's operations, newest first."""
    known("status", "page_size", "page_token")
    given = [name for text in request.args.getlist("status") for name in text.split(",")]
    wanted = {"status": verbs.statuses(given, STATUSES)} if given else {}
    rows, token = verbs.page(wanted, "page_size", "page_token")
    response = Response(compact({"operations": [render(row) for row in rows], "next_page_token": token or None}),
                        content_type="application/json")
    response.headers["Cache-Control"] = "private, no-cache"
    return response


@blueprint.get("/operations/op-<id:job_id>")
def get_operation(job_id: int) -> Response:
    """The operation, whatever its fate; with `wait` held as GET /v1/jobs/{id} is."""
    known("wait")
    since = watch.position()
    row, asked = find(job_id), Asked.by_request(base_url())
    until, wait = watch.is_terminal, asked.wait
    if asked.if_none_match:
        until = watch.moved_from(row.version)
        wait = wait if conditional.matches(asked.if_none_match, _tag(row)) else 0

    def respond(row: Row) -> Response:
        return conditional.view(row, asked, _tag(row), lambda: compact(render(row)))

    return verbs.hold(row, since, wait, respond, verbs.gone_in(shape, base_url()), until)


@blueprint.post("/operations/op-<id:job_id>/cancel")
def cancel(job_id: int) -> Response:
    """Cancel the operation, or ask it to stop; 409 when it has ended."""
    known()
    row = verbs.cancel_active(verbs.steered(job_id))
    return Response(compact(render(row)), content_type="application/json", headers={
        "Cache-Control": "no-store"} | conditional.pace(row))


def _tag(job: Row) -> str:
    return conditional.etag(job, "snake")


def _time(wire: str) -> str:
    """Whole seconds."""
    return clock.parse(wire).strftime("%Y-%m-%dT%H:%M:%SZ")
