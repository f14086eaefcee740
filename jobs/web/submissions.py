"""Submitting a job: judge everything that can be judged at once, store it in one transaction, answer 202.

The dashboard's form and every dialect come through here too.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request

from jobs import clock
from jobs.core import idempotency, reads, resources, submission
from jobs.core.access import Caller
from jobs.core.idempotency import Claim, KeyReused
from jobs.core.states import Priority
from jobs.core.submission import Accepted, Submission
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, bodies, conditional, inputs, results, schemas, watch
from jobs.web.conditional import Asked
from jobs.web.site import base_url, site
from jobs.work.job_type import OPTIONS, JobType

blueprint = Blueprint("submissions", __name__)
_COVERED = "•••"
_TOKEN = re.compile(r"[A-Za-z0-9._~:-]{1,255}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@blueprint.post("/v1/jobs")
def post_job() -> Response:
    """Submit a job of any type: `{"type", "payload", options…}`."""
    caller = auth.submitter()
    body = bodies.read_object()
    unknown = [name for name in body if name not in ("type", "payload", *OPTIONS)]
    if unknown or not isinstance(body.get("type"), str):
        faults = [{"pointer": f"#/{name}", "detail": "Unknown member."} for name in unknown]
        missing = [] if isinstance(body.get("type"), str) else [{"pointer": "#/type", "detail": "Name the job type."}]
        raise Problem("invalid-payload", errors=faults + missing)
    declared = find_type(body["type"])
    options = {name: body[name] for name in OPTIONS if name in body}
    asked = prepare(caller, declared, body.get("payload", {}), options, at="#/payload")
    return submit(caller, declared, asked, body)


@blueprint.post("/v1/<collection>")
def post_to_collection(collection: str) -> Response:
    """Submit a job by its collection: the payload's members and the options side by side."""
    declared = site().registry.by_collection(collection)
    if declared is None:
        raise Problem("not-found")
    caller = auth.submitter()
    body = bodies.read_object()
    options = {name: value for name, value in body.items() if name in OPTIONS}
    payload = {name: value for name, value in body.items() if name not in OPTIONS}
    asked = prepare(caller, declared, payload, options, at="#")
    return submit(caller, declared, asked, body, as_resource=True)


def find_type(name: str) -> JobType:
    """The declaration of this type; Problem 422 `unknown-type`."""
    declared = site().registry.get(name)
    if declared is None:
        raise Problem("unknown-type", f"There is no job type {name[:100]!r}.", errors=[{"pointer": "#/type", "detail": "Unknown."}])
    return declared


def prepare(caller: Caller, declared: JobType, payload: Any, options: Mapping[str, Any], at: str = "#",
            options_at: str = "#") -> Submission:
    """Judge a payload and its options, both as they came. Problems 422 with pointers below `at`."""
    if not isinstance(payload, dict):
        raise Problem("invalid-payload", errors=[{"pointer": at, "detail": "The payload is a JSON object."}])
    chosen = schemas.load(schemas.Options(), dict(options), options_at)
    loaded = schemas.load(declared.schema, payload, at)
    if chosen.get("callback_url"):
        site().guard.check_url(chosen["callback_url"], pointer=f"{options_at}/callbackUrl")
    used = _inputs(caller, declared, payload, at)
    if declared.check:
        declared.check(loaded)
    settings = site().settings
    start_within = chosen.get("queue_ttl") or declared.queue_ttl or round(settings.queue_ttl)
    first_start = max(clock.wire(clock.now()), chosen.get("not_before") or "")
    shown = {name: _COVERED if name in declared.secrets else value for name, value in payload.items()}
    return Submission(
        type=declared.name, owner=caller.owner, queue=declared.queue, payload=compact(shown),
        payload_private=compact(payload) if declared.secrets & payload.keys() else None,
        priority=chosen.get("priority", Priority.NORMAL), tags=compact(chosen.get("tags", [])),
        callback_url=chosen.get("callback_url"), not_before=chosen.get("not_before"),
        timeout=chosen.get("timeout") or declared.timeout or round(settings.job_timeout),
        max_attempts=chosen.get("max_attempts") or declared.max_attempts or settings.max_attempts,
        retention=round(settings.retention), start_within=start_within,
        start_by=clock.after(start_within, clock.parse(first_start)), traceparent=_traceparent(),
        collection=declared.collection, resource_retention=round(settings.resource_retention),
        resource_fields=compact(dict(declared.resource(loaded)) if declared.resource else {}), inputs=used)


def submit(caller: Caller, declared: JobType, asked: Submission, body: Any, as_resource: bool = False) -> Response:
    """Store the submission under the request's Idempotency-Key and answer: 202, or the result if the client waits for it."""
    wanted = Asked.by_request(base_url(), default_wait=declared.sync_wait or caller.sync_wait)
    since = watch.position() if wanted.wait else 0
    accepted = store(asked, claim_of(caller, declared, body))
    url, placeholder = wanted.base_url, _placeholder(accepted.job) if as_resource else None

    def respond(row: Row) -> Response:
        if wanted.wait and reads.is_terminal(row):
            return _synchronous(row, accepted, wanted)
        return _accepted(row, accepted.replayed, url, placeholder, wanted)

    return watch.poll_job(accepted.job, caller, since=since, wait=wanted.wait, until=watch.is_terminal, respond=respond,
                          refuse=False)


def store(asked: Submission, claim: Claim | None = None) -> Accepted:
    """Put the job on disk. Problem 422 when the key was used for another body, 410 when its job is gone."""
    asked = Submission(**vars(asked) | {"claim": claim})
    try:
        accepted = site().db.write(lambda tx: submission.accept(tx, asked))
    except KeyReused:
        raise Problem("idempotency-key-reused") from None
    if accepted.job.purged_at:
        raise Problem("gone", "The job of this Idempotency-Key has expired or was purged.")
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


def compact(value: Any) -> str:
    """JSON as it is stored: no spaces, characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _inputs(caller: Caller, declared: JobType, payload: Mapping[str, Any], at: str) -> tuple[int, ...]:
    """The artifacts that the payload names, each readable by the caller; addresses elsewhere pass the guard."""
    found = []
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


def _accepted(row: Row, replayed: bool, url: str, placeholder: Row | None, wanted: Asked) -> Response:
    job_url = f"{url}/v1/jobs/{row.id}"
    body = compact(resources.render(placeholder)) if placeholder else reads.render(row, url)
    response = Response(body, 202, content_type="application/json")
    response.headers.update({
        "Location": job_url, "Operation-Location": f"{url}/api/operations/{row.id}",
        "Content-Location": url + resources.path(placeholder) if placeholder else job_url,
        "Retry-After": str(1 if reads.is_terminal(row) else conditional.retry_after(row)),
        "Link": f'<{job_url}>; rel="monitor", <{job_url}/events>; rel="monitor"; type="text/event-stream"',
        "Cache-Control": "no-store", "Vary": "Prefer"})
    return _marked(response, replayed, wanted)


def _synchronous(row: Row, accepted: Accepted, wanted: Asked) -> Response:
    response = results.answer(row, wanted.base_url)
    job_url = f"{wanted.base_url}/v1/jobs/{row.id}"
    response.headers.update({"Content-Location": f"{job_url}/result", "Link": f'<{job_url}>; rel="monitor"', "Vary": "Prefer"})
    if row.resource:
        response.headers["Location"] = wanted.base_url + row.resource
    return _marked(response, accepted.replayed, wanted)


def _marked(response: Response, replayed: bool, wanted: Asked) -> Response:
    if replayed:
        response.headers["Idempotency-Replayed"] = "true"
    if wanted.prefer_applied:
        response.headers["Preference-Applied"] = wanted.prefer_applied
    return response


def _placeholder(row: Row) -> Row | None:
    declared = site().registry.get(row.type)
    return resources.get(site().db.read(), declared.collection, row.resource_id) if row.resource_id else None


def _traceparent() -> str | None:
    header = request.headers.get("traceparent", "")
    return header if _TRACEPARENT.fullmatch(header) else None
