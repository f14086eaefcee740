"""Reading jobs: one, many, what changed, and the streams."""

import json
from typing import Any

from flask import Blueprint, Response, request

from jobs import clock
from jobs.core import access, journal, reads
from jobs.core.states import Status
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, conditional, cursors, results, watch
from jobs.web.conditional import Asked
from jobs.web.problems import not_found
from jobs.web.site import base_url, site

blueprint = Blueprint("api", __name__)
DEFAULT_LIMIT, MAX_LIMIT = 50, 200


@blueprint.get("/v1/jobs/<id:job_id>")
def get_job(job_id: int) -> Response:
    """The job, whatever its fate; with `wait` held until it changes (If-None-Match) or ends."""
    known("wait")
    since = watch.position()
    row = find(job_id)
    asked = Asked.by_request(base_url())
    until = watch.moved_from(row.version) if conditional.matches(asked.if_none_match, conditional.etag(row)) else watch.is_terminal
    wait = asked.wait if not asked.if_none_match or until is not watch.is_terminal else 0  # it has moved already
    return watch.poll_job(row, auth.caller(), since=since, wait=wait, until=until, respond=lambda row: conditional.job(row, asked))


@blueprint.get("/v1/jobs/<id:job_id>/result")
def get_result(job_id: int) -> Response:
    """What the synchronous endpoint would have answered."""
    known("redirect")
    return results.answer(find(job_id), base_url(), redirect=request.args.get("redirect", "").lower() in ("true", "1"))


@blueprint.get("/v1/jobs/<id:job_id>/events")
def stream_job(job_id: int) -> Response:
    """Server-sent events: progress, then done."""
    known()
    since = watch.position()
    return watch.stream_job(find(job_id), auth.caller(), since=since, last_event_id=request.headers.get("Last-Event-ID"))


@blueprint.get("/v1/events")
def stream_jobs() -> Response:
    """Server-sent events of every job that the caller may see."""
    known()
    return watch.stream_jobs(auth.caller(), since=watch.position(), last_event_id=request.headers.get("Last-Event-ID"))


@blueprint.get("/v1/jobs/<id:job_id>/attempts")
def get_attempts(job_id: int) -> dict[str, Any]:
    """Every attempt at the job: who, when, and what came of it."""
    known()
    find(job_id)
    rows = site().db.read().all("SELECT * FROM attempts WHERE job_id = :id ORDER BY attempt", id=job_id)
    return {"attempts": [{
        "attempt": row.attempt, "worker": row.worker, "startedAt": row.started_at, "endedAt": row.ended_at,
        "outcome": row.outcome, "error": json.loads(reads.absolute(row.error, base_url()) or "null")} for row in rows]}


@blueprint.get("/v1/jobs/<id:job_id>/logs")
def get_logs(job_id: int) -> Response | dict[str, Any]:
    """The lines that the handler wrote, as JSON or as plain text."""
    known("after", "limit")
    find(job_id)
    rows = journal.read(site().db.read(), job_id, after=number("after", 0), limit=number("limit", 1000) or 1000)
    if request.accept_mimetypes.best_match(("application/json", "text/plain")) == "text/plain":
        text = "".join(f"{row.created_at} {row.line}\n" for row in rows)
        return Response(text, content_type="text/plain; charset=utf-8")
    return {"lines": [{"id": row.id, "attempt": row.attempt, "at": row.created_at, "line": row.line} for row in rows],
            "next": rows[-1].id if rows else number("after", 0)}


@blueprint.get("/v1/jobs")
def list_jobs() -> Response:
    """Jobs, newest first."""
    limit, cursor = page_limit(), request.args.get("cursor")
    wanted = filters()
    caller = auth.caller()
    if not caller.sees_all:
        if wanted.get("owner", caller.owner) != caller.owner:
            return _page([], None)
        wanted["owner"] = caller.owner
    scope = cursors.fingerprint(wanted)
    before = cursors.read(cursor, scope) if cursor else None
    rows = reads.page(site().db.read(), limit + 1, before=before, **wanted)
    following = None
    if len(rows) > limit:
        rows = rows[:limit]
        following = cursors.next_url(base_url(), cursors.make(rows[-1].id, scope))
    return _page(rows, following)


@blueprint.get("/v1/jobs/changes")
def list_changes() -> Response:
    """The delta feed: each changed job once, with its latest state, in commit order."""
    known("since", "limit", "wait")
    caller, limit, url = auth.caller(), page_limit(), base_url()
    asked = Asked.by_request(url)
    position = watch.position()
    reader = site().db.read()
    if "since" not in request.args:
        return _changes([], reads.latest(reader), limit, url)
    since = cursors.read_version(request.args["since"])
    if since < reads.horizon(reader):
        raise Problem("resync-required")
    rows = reads.changes(reader, since, limit + 1, owner=caller.scope)
    return watch.poll_changes(rows, caller, since=max(position, since), wait=asked.wait, limit=limit,
                              respond=lambda rows: _changes(rows, since, limit, url))


# What the other views of a job share


def find(job_id: int) -> Row:
    """The job, if this caller may see it. Problems: 404, alike for foreign and unknown; 410 for a tombstone."""
    row = reads.get(site().db.read(), job_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    if row.purged_at:
        raise Problem("gone")
    return row


def known(*names: str) -> None:
    """Problem 400 when the query has a parameter that is not one of these."""
    for name in request.args:
        if name not in names:
            allowed = f"Known are: {', '.join(names)}." if names else "There are none here."
            raise Problem("bad-parameter", f"The parameter {name[:100]!r} is unknown. {allowed}")


def number(name: str, default: int) -> int:
    """A whole number, not negative, out of the query; Problem 400."""
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Problem("bad-parameter", f"{name} is a whole number, 0 or more.")
    return int(text)


def page_limit() -> int:
    """The page size: 0 means the default, too large a one is cut."""
    return min(number("limit", DEFAULT_LIMIT) or DEFAULT_LIMIT, MAX_LIMIT)


def filters() -> dict[str, Any]:
    """The list's filter out of the query, as keywords of `reads.page`. Problems 400."""
    known("status", "type", "tag", "q", "owner", "ids", "createdAfter", "createdBefore", "updatedAfter", "limit", "cursor")
    found: dict[str, Any] = {}
    for name in ("status", "type", "tag"):
        values = tuple(value for given in request.args.getlist(name) for value in (given.split(",") if name != "tag" else [given]))
        if values:
            found[name] = values
    for value in found.get("status", ()):
        if value not in list(Status):
            raise Problem("bad-parameter", f"status is one of {', '.join(Status)}.")
    if "ids" in request.args:
        ids = request.args["ids"].split(",")
        if len(ids) > MAX_LIMIT or not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in ids):
            raise Problem("bad-parameter", f"ids is a list of at most {MAX_LIMIT} ids, joined by commas.")
        found["ids"] = tuple(int(each) for each in ids)
    for name in ("q", "owner"):
        if request.args.get(name):
            found[name] = request.args[name]
    for name, key in (("createdAfter", "created_after"), ("createdBefore", "created_before"), ("updatedAfter", "updated_after")):
        if name in request.args:
            found[key] = instant(name)
    return found


def instant(name: str) -> str:
    """A time out of the query, in the wire form; Problem 400."""
    try:
        return clock.wire(clock.parse(request.args[name]))
    except ValueError:
        raise Problem("bad-parameter", f"{name} is an RFC 3339 time with its offset. In a query a + must be written %2B.") from None


def _page(rows: list[Row], following: str | None) -> Response:
    body = f'{{"jobs":[{",".join(reads.render(row, base_url()) for row in rows)}],"next":{json.dumps(following)}}}'
    response = Response(body, content_type="application/json")
    response.headers["Cache-Control"] = "private, no-cache"
    if following:
        response.headers["Link"] = f'<{following}>; rel="next"'
    return response


def _changes(rows: list[Row], since: int, limit: int, url: str) -> Response:
    """A page of the feed. Needs no request: the hub answers with it, too."""
    shown = rows[:limit]
    entries = ",".join(f'{{"id":"{row.id}","deleted":true}}' if row.purged_at else reads.render(row, url) for row in shown)
    cursor = shown[-1].version if shown else since
    more = json.dumps(len(rows) > limit)
    response = Response(f'{{"changes":[{entries}],"nextCursor":"{cursor}","hasMore":{more}}}', content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
