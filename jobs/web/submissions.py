"""Submitting a job: judge everything that can be judged at once, store it in one transaction, answer 202.

The dashboard's form and every dialect come through here too.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, request
from marshmallow import ValidationError

from jobs import clock
from jobs.core import audit, idempotency, reads, resources, submission
from jobs.core.access import Caller
from jobs.core.audit import Act, Actor
from jobs.core.idempotency import Claim, KeyReused
from jobs.core.states import Priority
from jobs.core.submission import Accepted, Submission
from jobs.db import Row, Transaction
from jobs.errors import Problem
from jobs.web import auth, bodies, conditional, inputs, negotiation, results, schemas, watch
from jobs.web.conditional import Asked
from jobs.web.queries import known
from jobs.web.site import base_url, site
from jobs.work.job_type import OPTIONS, JobType

blueprint = Blueprint("submissions", __name__)
blueprint.before_request(negotiation.check)
_TOKEN = re.compile(r"[A-Za-z0-9._~:-]{1,255}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@blueprint.post("/v1/jobs")
def post_job() -> Response:
    """Submit a job of any type: `{"type", "payload", options…}`."""
    known("wait")
    caller = auth.submitter()
    body = bodies.read_object()
    if not isinstance(body.get("type"), str):
        raise schemas.fault("#/type", "Name the job type.")
    declared = find_type(body["type"])
    options = {name: value for name, value in body.items() if name not in ("type", "payload")}
    payload = body.get("payload", {})
    return (repeated(caller, declared, body)
            or submit(caller, declared, prepare(caller, declared, payload, options, at="#/payload"), body))


@blueprint.post("/v1/<collection:collection>")
def post_to_collection(collection: str) -> Response:
    """Submit a job by its collection: the payload's members and the options side by side."""
    known("wait")
    declared = site().registry.by_collection(collection)
    caller = auth.submitter()
    body = bodies.read_object()
    options = {name: value for name, value in body.items() if name in OPTIONS}
    payload = {name: value for name, value in body.items() if name not in OPTIONS}
    return (repeated(caller, declared, body, as_resource=True)
            or submit(caller, declared, prepare(caller, declared, payload, options), body, as_resource=True))


def find_type(name: str) -> JobType:
    """The declaration of this type; Problem 422 `unknown-type`."""
    declared = site().registry.get(name)
    if declared is None:
        fault = {"pointer": "#/type", "detail": "Unknown."}
        raise Problem("unknown-type", f"There is no job type {name[:100]!r}. GET /v1/job-types lists them.", errors=[fault])
    return declared


def prepare(caller: Caller, declared: JobType, payload: Any, options: Mapping[str, Any], at: str = "#",
            options_at: str = "#", again: bool = False) -> Submission:
    """Judge a payload and its options, both as they came; nothing is stored. Problems 422 with pointers below `at`.

    `again`: the payload is that of an earlier job and stays as it is, whoever repeats it.
    """
    if declared.unavailable:
        raise Problem("type-unavailable", declared.unavailable)
    chosen, faults = schemas.judge(schemas.Options(), dict(options), options_at)
    loaded, more_faults = schemas.judge(declared.schema, payload, at)
    if faults or more_faults:
        raise Problem("invalid-payload", errors=faults + more_faults)
    if chosen.get("callback_url"):
        site().guard.check_url(chosen["callback_url"], pointer=f"{options_at}/callbackUrl")
    used = _inputs(caller, declared, payload, at)
    settings = site().settings
    try:
        declared.judge(loaded, settings)
        completed = declared.complete(payload, caller) if declared.complete else payload
    except ValidationError as error:
        raise Problem("invalid-payload", errors=schemas.pointers(error.messages, at)) from None
    payload = payload if again else completed
    start_within = chosen.get("queue_ttl") or declared.queue_ttl or round(settings.queue_ttl)
    first_start = max(clock.wire(clock.now()), chosen.get("not_before") or "")
    shown = schemas.cover(declared.schema, payload)
    return Submission(
        type=declared.name, owner=caller.owner, queue=declared.queue, payload=compact(shown),
        payload_private=compact(payload) if shown != payload else None,
        priority=chosen.get("priority", Priority.NORMAL), tags=compact(chosen.get("tags", [])),
        callback_url=chosen.get("callback_url"), not_before=chosen.get("not_before"),
        timeout=chosen.get("timeout") or declared.timeout or round(settings.job_timeout),
        max_attempts=chosen.get("max_attempts") or declared.max_attempts or settings.max_attempts,
        retention=round(settings.retention), start_within=start_within,
        start_by=clock.after(start_within, clock.parse(first_start)), traceparent=_traceparent(),
        collection=declared.collection, resource_retention=round(settings.resource_retention),
        resource_fields=compact(dict(declared.resource(loaded)) if declared.resource else {}), inputs=used)


def submit(caller: Caller, declared: JobType, asked: Submission, body: Any, as_resource: bool = False) -> Response:
    """Store the submission under the request's Idempotency-Key; 202, or the result if the client waits for it."""
    wanted, since = _wanted(caller, declared), watch.position()
    return _answer(caller, store(asked, claim_of(caller, declared, body)), since, wanted, as_resource)


def repeated(caller: Caller, declared: JobType, body: Any, as_resource: bool = False) -> Response | None:
    """The answer to a request whose Idempotency-Key has made a job before, which is not judged anew; else None."""
    wanted, since = _wanted(caller, declared), watch.position()
    row = earlier(claim_of(caller, declared, body))
    return _answer(caller, Accepted(row, replayed=True), since, wanted, as_resource) if row else None


def store(asked: Submission, claim: Claim | None = None) -> Accepted:
    """Put the job on disk. Problem 422 when the key was used for another body, 410 when its job is gone."""
    asked, actor = replace(asked, claim=claim), auth.actor() if asked.retry_of else None
    try:
        accepted = site().db.write(lambda tx: _accept(tx, asked, actor))
    except KeyReused:
        raise Problem("idempotency-key-reused") from None
    if accepted.job.purged_at:
        raise _gone()
    return accepted


def _accept(tx: Transaction, asked: Submission, actor: Actor | None) -> Accepted:
    accepted = submission.accept(tx, asked)
    if actor and not accepted.replayed:
        audit.note(tx, actor, Act.RETRY, f"/v1/jobs/{asked.retry_of}", asked.owner, type=asked.type, made=str(accepted.job.id))
    return accepted


def claim_of(caller: Caller, declared: JobType | None, body: Any) -> Claim | None:
    """The request's Idempotency-Key (draft-07: a structured string; bare as deployed clients send it). Problems 400."""
    values = request.headers.getlist("Idempotency-Key")
    if not values:
        if site().settings.require_idempotency_key or (declared and declared.require_idempotency_key):
            raise Problem("idempotency-key-missing")
        return None
    key = values[0].strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(values) > 1 or not _TOKEN.fullmatch(key):
        raise Problem("idempotency-key-malformed")
    return Claim(caller.owner, request.method, request.path, key, idempotency.fingerprint(body))


def earlier(claim: Claim | None) -> Row | None:
    """The job that this key has made. Problem 422 when its body was another, 410 when it is gone."""
    reader = site().db.read()
    try:
        job_id = idempotency.find(reader, claim) if claim else None
    except KeyReused:
        raise Problem("idempotency-key-reused") from None
    row = reads.get(reader, job_id) if job_id is not None else None
    if row is not None and row.purged_at:
        raise _gone()
    return row


def _gone() -> Problem:
    return Problem("gone", "The job of this Idempotency-Key has expired or was purged.")


def compact(value: Any) -> str:
    """JSON as it is stored: no spaces, characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _inputs(caller: Caller, declared: JobType, payload: Mapping[str, Any], at: str) -> tuple[int, ...]:
    """The artifacts that the payload names, each readable by the caller; addresses elsewhere pass the guard."""
    found = []
    for name in sorted(declared.sources & payload.keys()):
        site().guard.check_url(payload[name], pointer=f"{at}/{name}")
    for name in sorted(declared.inputs & payload.keys()):
        several = isinstance(payload[name], list)
        for number, url in enumerate(payload[name] if several else [payload[name]]):
            pointer = f"{at}/{name}/{number}" if several else f"{at}/{name}"
            artifact_id = inputs.resolve(site().db.read(), caller, url, base_url(), pointer)
            if artifact_id is None:
                site().guard.check_url(url, pointer=pointer)
            else:
                found.append(artifact_id)
    return tuple(found)


def _wanted(caller: Caller, declared: JobType) -> Asked:
    return Asked.by_request(base_url(), default_wait=declared.sync_wait or caller.sync_wait)


def _answer(caller: Caller, accepted: Accepted, since: int, asked: Asked, as_resource: bool) -> Response:
    """202, or what /result says if the job ends while the client waits for it."""
    placeholder = _placeholder(accepted.job) if as_resource else None

    def respond(row: Row) -> Response:
        ended = asked.wait and reads.is_terminal(row)
        response = _synchronous(row, asked) if ended else _accepted(row, placeholder, asked)
        if accepted.replayed:
            response.headers["Idempotency-Replayed"] = "true"
        if asked.prefer_applied:
            response.headers["Preference-Applied"] = asked.prefer_applied
        response.headers["Vary"] = "Prefer"
        return response

    return watch.poll_job(accepted.job, caller, since=since, wait=asked.wait, until=watch.is_terminal, respond=respond,
                          refuse=False)


def _accepted(row: Row, placeholder: Row | None, asked: Asked) -> Response:
    url = asked.base_url
    job_url = f"{url}/v1/jobs/{row.id}"
    body = compact(resources.render(placeholder)) if placeholder else reads.render(row, url)
    response = Response(body, 202, content_type="application/json")
    response.headers.update({
        "Location": job_url, "Operation-Location": f"{url}/api/operations/{row.id}",
        "Content-Location": url + resources.path(placeholder) if placeholder else job_url,
        "Retry-After": str(1 if reads.is_terminal(row) else conditional.retry_after(row, asked.waiting)),
        "Link": f'<{job_url}>; rel="monitor", <{job_url}/events>; rel="monitor"; type="text/event-stream"',
        "Cache-Control": "no-store"})
    return response


def _synchronous(row: Row, asked: Asked) -> Response:
    response = results.answer(row, asked.base_url)
    job_url = f"{asked.base_url}/v1/jobs/{row.id}"
    response.headers.update({"Content-Location": f"{job_url}/result", "Link": f'<{job_url}>; rel="monitor"'})
    if row.resource:
        response.headers["Location"] = asked.base_url + row.resource
    return response


def _placeholder(row: Row) -> Row | None:
    declared = site().registry.get(row.type)
    return resources.get(site().db.read(), declared.collection, row.resource_id) if row.resource_id else None


def _traceparent() -> str | None:
    header = request.headers.get("traceparent", "")
    return header if _TRACEPARENT.fullmatch(header) else None
