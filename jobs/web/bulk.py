"""Steering many jobs with one request: those of a filter, those of a list of ids, or all that the caller may steer.

One request looks at a bounded number of jobs, in batches of one transaction each, and answers a cursor for the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from flask import Blueprint, Response
from marshmallow import RAISE, Schema, fields

from jobs.core import access, reads
from jobs.core.access import Caller
from jobs.core.audit import Actor
from jobs.db import Row, Transaction
from jobs.errors import Problem
from jobs.web import auth, bodies, cursors, filters, negotiation, schemas, steering, submissions
from jobs.web.queries import known
from jobs.web.site import site

blueprint = Blueprint("bulk", __name__)
blueprint.before_request(negotiation.check)
MOST = 1000    # jobs that one request looks at
_BATCH = 100


class Outcome(NamedTuple):
    """What became of one job; `made` is the new job of a retry."""

    job_id: int
    problem: Problem | None = None
    made: int | None = None


class Wanted(Schema):
    """What stands beside the filter in a bulk request."""

    class Meta:
        unknown = RAISE

    all = fields.Bool(truthy={True}, falsy={False}, load_default=False)
    dry_run = fields.Bool(data_key="dryRun", truthy={True}, falsy={False}, load_default=False)
    cursor = fields.Str(load_default=None, allow_none=True)


@blueprint.post("/v1/jobs:<any(cancel, retry, purge):verb>")
def steer(verb: str) -> Response:
    """Cancel, retry or purge; answers counts, and the refused ids with reasons."""
    known()
    caller, body = auth.submitter(), bodies.read_object()
    wanted = schemas.load(Wanted(), {name: value for name, value in body.items() if name not in filters.NAMES})
    chosen = filters.of_body(body)
    if not chosen and not wanted["all"]:
        raise Problem("empty-filter")
    if chosen and wanted["all"]:
        raise schemas.fault("#/all", 'Give either a filter or "all": true.')
    scope = cursors.fingerprint([verb, chosen])
    before = cursors.read(wanted["cursor"], scope) if wanted["cursor"] else None
    outcomes, last = run(verb, chosen, caller, before, dry_run=wanted["dry_run"], body=body)
    outcomes += _missing(caller, chosen, {outcome.job_id for outcome in outcomes})
    refused = [_refusal(outcome.job_id, outcome.problem) for outcome in outcomes if outcome.problem]
    answer = {
        "dryRun": wanted["dry_run"],
        "counts": {"matched": len(outcomes), "done": len(outcomes) - len(refused), "refused": len(refused)},
        "refused": refused,
        "next": cursors.make(last, scope) if len(outcomes) == MOST else None}
    if verb == "retry" and not wanted["dry_run"]:
        answer["retried"] = {str(outcome.job_id): str(outcome.made) for outcome in outcomes if outcome.made}
    return Response(submissions.compact(answer), content_type="application/json", headers={"Cache-Control": "no-store"})


def run(verb: str, chosen: Mapping[str, Any], caller: Caller, before: int | None = None, dry_run: bool = False,
        body: Any = None) -> tuple[list[Outcome], int | None]:
    """What became of the jobs that are meant, `MOST` of them at most, newest first, and the last id that was looked at.

    `body` is that of the API's request, None for a form of the dashboard, which no client repeats by itself.
    """
    act = _judge if dry_run else {"cancel": _cancel, "purge": _purge, "retry": _retry}[verb]
    outcomes: list[Outcome] = []
    for batch in _batches(caller, chosen, before):
        outcomes += act(verb, batch, caller, body)
        before = batch[-1].id
    return outcomes, before


def _batches(caller: Caller, chosen: Mapping[str, Any], before: int | None) -> Iterator[list[Row]]:
    """The jobs that are meant, newest first, `MOST` of them at most."""
    wanted = filters.scoped(dict(chosen), caller)
    for _ in range(MOST // _BATCH if wanted is not None else 0):
        batch = reads.page(site().db.read(), _BATCH, before=before, **wanted)
        if batch:
            before = batch[-1].id
            yield batch
        if len(batch) < _BATCH:
            return


def _judge(verb: str, batch: list[Row], caller: Caller, body: Any) -> list[Outcome]:
    allowed = steering.VERBS[verb][0]
    return [Outcome(row.id, None if row.status in allowed else steering.illegal(row, verb)) for row in batch]


def _cancel(verb: str, batch: list[Row], caller: Caller, body: Any) -> list[Outcome]:
    actor = auth.actor()
    return site().db.write(lambda tx: [_try(steering.cancel_now, tx, row, actor) for row in batch])


def _purge(verb: str, batch: list[Row], caller: Caller, body: Any) -> list[Outcome]:
    actor = auth.actor()
    return site().db.write(lambda tx: [_try(steering.purge_now, tx, row, actor) for row in batch])


def _try(action: Callable[[Transaction, int, Actor], Any], tx: Transaction, row: Row, actor: Actor) -> Outcome:
    try:
        action(tx, row.id, actor)
    except Problem as problem:
        return Outcome(row.id, problem)
    return Outcome(row.id)


def _retry(verb: str, batch: list[Row], caller: Caller, body: Any) -> list[Outcome]:
    outcomes = []
    for row in batch:
        try:
            outcomes.append(Outcome(row.id, made=_retry_one(row, caller, body).id))
        except Problem as problem:
            if problem.slug.startswith("idempotency-key"):
                raise  # about the request, not about this job
            outcomes.append(Outcome(row.id, problem))
    return outcomes


def _retry_one(row: Row, caller: Caller, body: Any) -> Row:
    """The new job. An Idempotency-Key counts for each job by itself, so that the whole request can be repeated."""
    claim = None if body is None else submissions.claim_of(caller, submissions.find_type(row.type), body)
    claim = claim and replace(claim, path=f"{claim.path}/{row.id}")
    earlier = submissions.earlier(claim)
    if earlier:
        return earlier
    whole = reads.get(site().db.read(), row.id)  # a list leaves big payloads out
    if whole is None or whole.purged_at:
        raise Problem("gone")
    return submissions.store(steering.prepare_retry(whole, {}), claim).job


def _missing(caller: Caller, chosen: Mapping[str, Any], found: set[int]) -> list[Outcome]:
    """Refusals for the ids that no job was found for; other filters beside `ids` say themselves what they leave out."""
    missing = []
    for job_id in dict.fromkeys(chosen["ids"]) if set(chosen) == {"ids"} else ():
        if job_id not in found:
            row = reads.get(site().db.read(), job_id)
            is_tombstone = row is not None and access.may_see(caller, row.owner)
            missing.append(Outcome(job_id, Problem("gone" if is_tombstone else "not-found")))
    return missing


def _refusal(job_id: int, problem: Problem) -> dict[str, str]:
    return {"id": str(job_id), "reason": problem.slug, "detail": problem.detail or problem.title}
