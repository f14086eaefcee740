"""What every dialect does to jobs: submit, cancel, list, hold. Each is a verb of the native API with another answer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Flask, Response, request
from flask.blueprints import BlueprintSetupState

from jobs.core import reads
from jobs.core.states import ACTIVE
from jobs.core.submission import Accepted
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, bodies, cursors, filters, problems, queries, steering, submissions, watch
from jobs.web.api import find
from jobs.web.conditional import Asked
from jobs.web.site import base_url, site
from jobs.work.job_type import OPTIONS, JobType, Registry

_PAGE_BYTES = 4 * 1024 * 1024
"""A page of whole jobs ends behind the one that exceeds this."""


def registry_of(state: BlueprintSetupState) -> Registry:
    """The job types of the app on which a blueprint is being registered."""
    app: Flask = state.app
    return app.extensions["accepted"].registry


def add_submission(state: BlueprintSetupState, rule: str, view: Callable[..., Response], declared: JobType) -> None:
    """`POST rule` calls `view(type's name)`. Each rule has its own endpoint: those that share one may redirect."""
    state.add_url_rule(rule, "submit" + rule.replace(".", "/"), partial(view, declared.name), methods=["POST"])


def submit(type_name: str) -> Accepted:
    """Submit the request's body as a job of this type, under its Idempotency-Key.

    Payload and options stand side by side, or the payload in a member of its own, as for POST /v1/jobs.
    """
    caller = auth.submitter()
    declared = submissions.find_type(type_name)
    body = bodies.read_object(optional=True)
    claim = submissions.claim_of(caller, declared, body)
    earlier = submissions.earlier(claim)
    if earlier:
        return Accepted(earlier, replayed=True)
    payload, options, at = _parts(declared, body)
    return submissions.store(submissions.prepare(caller, declared, payload, options, at=at), claim)


def _parts(declared: JobType, body: Mapping[str, Any]) -> tuple[Any, dict[str, Any], str]:
    named = {value.data_key or name for name, value in declared.schema.fields.items()}
    if "payload" in body and "payload" not in named:
        return body["payload"], {name: value for name, value in body.items() if name != "payload"}, "#/payload"
    options = {name: value for name, value in body.items() if name in OPTIONS}
    return {name: value for name, value in body.items() if name not in OPTIONS}, options, "#"


def answer(accepted: Accepted, text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a submission."""
    response = Response(text, status, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(headers or {})
    if accepted.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return response


def asked() -> Asked:
    """What the request wants of a poll, but for `Prefer: wait`, which neither Google's nor Azure's clients send."""
    return replace(Asked.by_request(base_url()), wait=0, prefer_applied=None)


def steered(job_id: int) -> Row:
    """The job, if this caller may steer it. Problems 403, 404, 410."""
    row = find(job_id)
    auth.steering(row.owner)
    return row


def cancel_active(row: Row) -> Row:
    """Cancel the job or ask it to stop. Problem 409 when it has ended, cancelled or not."""

    def check(current: Row) -> None:
        if current.status not in ACTIVE:
            raise steering.illegal(current, "cancel")

    return steering.cancel_job(row, check)


def page(wanted: Mapping[str, Any], size: str, token: str) -> tuple[list[Row], str]:
    """A page of whole jobs, newest first, and the token of the next one ("" at the end).

    `wanted` are keywords of `reads.page`; `size` and `token` name the query's parameters. Problems 400.
    """
    limit = min(queries.number(size, 0) or queries.DEFAULT_LIMIT, queries.MAX_LIMIT)
    scoped = filters.scoped(dict(wanted), auth.caller())
    scope = cursors.fingerprint(scoped)
    before = cursors.read(request.args[token], scope) if request.args.get(token) else None
    reader = site().db.read()
    found = reads.page(reader, limit + 1, before=before, **scoped)
    shown, length = [], 0
    for row in found[:limit]:
        whole = reads.get(reader, row.id) if row.payload is None or (row.result is None and row.result_size) else row
        if whole is not None and not whole.purged_at:
            shown.append(whole)
            length += whole.result_size + whole.payload_size
        if length > _PAGE_BYTES:
            break
    last = row.id if found else 0
    return shown, cursors.make(last, scope) if found and last != found[-1].id else ""


def hold(row: Row, since: int, wait: float, respond: Callable[[Row], Response], gone: Callable[[], Response],
         until: Callable[[Row], bool] = watch.is_terminal) -> Response:
    """`respond(row)` once `until(row)` holds or `wait` seconds are over; `gone()` when the job is purged meanwhile."""
    return watch.poll_job(row, auth.caller(), since=since, wait=wait, until=until, respond=respond, refuse=False,
                          gone=gone)


def statuses(given: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Native statuses by their names in a dialect (`known`: native → dialect). Problem 400."""
    names = tuple(given)
    queries.check_known("status", names, known.values())
    return tuple(native for native, name in known.items() if name in names)


def gone_in(shape: Callable[[dict[str, Any]], dict[str, Any]], base_url: str) -> Callable[[], Response]:
    """What a dialect answers when a job is purged while a request about it is held."""
    return lambda: problems.document(shape(Problem("gone").members(base_url)))
