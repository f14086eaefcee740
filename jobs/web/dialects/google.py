"""Google's long-running operations (AIP-151): google.longrunning.Operations over REST, for its public clients."""

import json
import re
import sys
from typing import Any

from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState

from jobs.core import reads
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, bodies, conditional, limits, negotiation, steering, watch
from jobs.web.api import find
from jobs.web.dialects import errors, filter, outcome, verbs
from jobs.web.problems import not_found
from jobs.web.queries import known
from jobs.web.site import base_url
from jobs.web.submissions import compact
from jobs.work.job_type import JobType

blueprint = Blueprint("google", __name__)
blueprint.before_request(negotiation.check)
_STRUCT, _VALUE = (f"type.googleapis.com/google.protobuf.{name}" for name in ("Struct", "Value"))
_STATUSES = {410: 404, 415: 400, 422: 400}  # of HTTP answers, as far as Google's clients do not know the native ones
_SYSTEM = ("alt", "$alt", "prettyPrint", "returnPartialSuccess")  # parameters that clients add; they change nothing
_TIMEOUT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s")


def render(job: Row, name: str) -> dict[str, Any]:
    """The job as an Operation: `name`, `done`, `metadata`, and when done one of `response` and `error`; nothing else,
    since Google's parser refuses other members."""
    operation = {"name": name, "done": reads.is_terminal(job), "metadata": {"@type": _STRUCT, "value": _metadata(job)}}
    if outcome.has_result(job):
        result = _doubles(outcome.result(job))
        operation["response"] = {"@type": _STRUCT if isinstance(result, dict) else _VALUE, "value": result}
    elif fault := outcome.fault(job):
        code = outcome.code_of(fault.status) if fault.status else outcome.CANCELLED
        operation["error"] = {"code": code, "message": fault.message, "details": []}
    return operation


def shape(problem: dict[str, Any]) -> dict[str, Any]:
    """An error of HTTP, with the statuses that Google's clients know."""
    status = _STATUSES.get(problem["status"], problem["status"])
    name = "FAILED_PRECONDITION" if outcome.slug_of(problem) == "illegal-transition" else outcome.canonical(status)
    error = {"code": status, "message": outcome.explain(problem), "status": name}
    return problem | {"status": status, "error": error}


errors.speak(blueprint, shape, re.compile(r"/v1/(.+/)?operations(/|$)").match)


@blueprint.record
def add_submissions(state: BlueprintSetupState) -> None:
    """`POST /v1/videos:transcode` for the type `video.transcode`, `/v1/{type}:run` for each; under any parent too."""
    for declared in verbs.registry_of(state):
        for path in submission_paths(declared):
            for rule in (f"/v1/{path}", f"/v1/<path:parent>/{path}"):
                verbs.add_submission(state, rule, submit, declared)


def submission_paths(declared: JobType) -> list[str]:
    """Where jobs of this type are submitted, below /v1 or a parent."""
    collection, (_, dot, verb) = declared.collection, declared.name.rpartition(".")
    return [f"{declared.name}:run", *([f"{collection}:{verb}"] if collection and dot else [])]


def submit(type_name: str, parent: str | None = None) -> Response:
    """Submit a job: 200 and its Operation, named under the parent that it was posted to."""
    known(*_SYSTEM)
    accepted = verbs.submit(type_name)
    return verbs.answer(accepted, _text(accepted.job, parent), 200)


@blueprint.post("/v1/<name>:<verb>")
@blueprint.post("/v1/<path:parent>/<name>:<verb>")
def refuse(name: str, verb: str, parent: str | None = None) -> Response:
    """There is no such type or verb."""
    raise not_found()


refuse.only_refuses = True      # so that another method finds nothing there either


@blueprint.get("/v1/operations")
@blueprint.get("/v1/<path:parent>/operations")
def list_operations(parent: str | None = None) -> Response:
    """The caller's operations, newest first; under whatever parent, they are the same."""
    known("filter", "pageSize", "pageToken", *_SYSTEM)
    clauses = filter.parse(request.args.get("filter", ""))
    rows, token = verbs.page({"either": clauses} if clauses else {}, "pageSize", "pageToken")
    operations = [render(row, _name(row, parent)) for row in rows]
    response = Response(compact({"operations": operations, "nextPageToken": token}), content_type="application/json")
    response.headers["Cache-Control"] = "private, no-cache"
    return response


@blueprint.get("/v1/operations/<id:job_id>")
@blueprint.get("/v1/<path:parent>/operations/<id:job_id>")
@limits.delays
def get_operation(job_id: int, parent: str | None = None) -> Response:
    """The Operation. Over the rate limit it comes late, since Google's client gives its future up on a poll's 429."""
    known(*_SYSTEM)
    since = watch.position()
    row, asked = find(job_id), verbs.asked()

    def respond(row: Row) -> Response:
        return conditional.view(row, asked, conditional.etag(row, "google"), lambda: _text(row, parent))

    return verbs.hold(row, since, limits.delay(), respond, verbs.gone_in(shape, base_url()), until=lambda row: False)


@blueprint.post("/v1/operations/<id:job_id>:wait")
@blueprint.post("/v1/<path:parent>/operations/<id:job_id>:wait")
@limits.delays
def wait(job_id: int, parent: str | None = None) -> Response:
    """The Operation once it is done, or as it stands after `timeout`, at most 50 s."""
    known("timeout", *_SYSTEM)
    given = bodies.read_object(optional=True).get("timeout", request.args.get("timeout"))
    since, row = watch.position(), find(job_id)

    def respond(row: Row) -> Response:
        return Response(_text(row, parent), content_type="application/json", headers={"Cache-Control": "no-store"})

    seconds = max(_seconds(given), limits.delay())
    return verbs.hold(row, since, seconds, respond, verbs.gone_in(shape, base_url()))


@blueprint.post("/v1/operations/<id:job_id>:cancel")
@blueprint.post("/v1/<path:parent>/operations/<id:job_id>:cancel")
def cancel(job_id: int, parent: str | None = None) -> Response:
    """Ask the job to stop, without a promise; an Operation that is done stays as it is."""
    known(*_SYSTEM)
    row = verbs.steered(job_id)
    bodies.read_object(optional=True)
    try:
        verbs.cancel_active(row)
    except Problem as problem:
        if problem.slug != "illegal-transition":
            raise
    return _empty()


@blueprint.delete("/v1/operations/<id:job_id>")
@blueprint.delete("/v1/<path:parent>/operations/<id:job_id>")
def delete(job_id: int, parent: str | None = None) -> Response:
    """Forget an Operation that is done. It never cancels: 400 while the job is active."""
    known(*_SYSTEM)
    try:
        steering.purge_job(verbs.steered(job_id))
    except Problem as problem:
        if problem.slug != "illegal-transition":
            raise
        raise Problem("illegal-transition", "The operation is not done; cancel it first.", status=400) from None
    return _empty()


def _metadata(job: Row) -> dict[str, Any]:
    return {
        "progress": job.progress, "status": job.status, "type": job.type, "stage": job.stage, "attempt": job.attempt,
        "createTime": job.created_at, "updateTime": job.updated_at, "startTime": job.started_at,
        "endTime": job.finished_at, "cancelRequestTime": job.cancel_requested_at, "expireTime": job.expires_at,
        "resource": job.resource}


def _doubles(value: Any) -> Any:
    """The value with integers that no double can hold as strings: Google's parser fails at them, and with one such
    operation a whole page is lost."""
    if isinstance(value, dict):
        return {name: _doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_doubles(member) for member in value]
    return str(value) if isinstance(value, int) and abs(value) > sys.float_info.max else value


def _name(job: Row, parent: str | None) -> str:
    return f"{parent}/operations/{job.id}" if parent else f"operations/{job.id}"


def _text(job: Row, parent: str | None) -> str:
    return compact(render(job, _name(job, parent)))


def _empty() -> Response:
    return Response("{}", content_type="application/json", headers={"Cache-Control": "no-store"})


def _seconds(timeout: Any) -> float:
    """The duration of AIP-142's JSON form, cut; the longest when none is given. Problem 400."""
    if timeout is None:
        return conditional.MAX_WAIT
    match = _TIMEOUT.fullmatch(timeout) if isinstance(timeout, str) else None
    if not match:
        raise Problem("bad-parameter", 'timeout is a duration in seconds, such as "30s".')
    return min(float(match[1]), conditional.MAX_WAIT)
