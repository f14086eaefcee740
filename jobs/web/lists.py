"""Watching many jobs: the list, the feed of changes, and one stream of all."""

import json

from flask import Blueprint, Response, request

from jobs.core import reads
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, cursors, filters, negotiation, watch
from jobs.web.conditional import Asked
from jobs.web.queries import known, page_limit
from jobs.web.site import base_url, site

blueprint = Blueprint("lists", __name__)
blueprint.before_request(negotiation.check)


@blueprint.get("/v1/jobs")
def list_jobs() -> Response:
    """Jobs, newest first."""
    known(*filters.NAMES, "limit", "cursor")
    limit, cursor, wanted = page_limit(), request.args.get("cursor"), filters.scoped(filters.of_query(), auth.caller())
    if wanted is None:
        return _page([], None)
    scope = cursors.fingerprint(wanted)
    before = cursors.read(cursor, scope) if cursor is not None else None
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
    caller, limit, asked = auth.caller(), page_limit(), Asked.by_request(base_url())
    position = watch.position()
    reader = site().db.read()
    if "since" not in request.args:
        return _changes([], max(reads.latest(reader), reads.horizon(reader)), limit, asked)
    since = cursors.read_version(request.args["since"])
    if since < reads.horizon(reader):
        raise Problem("resync-required")
    rows = reads.changes(reader, since, limit + 1, owner=caller.scope)
    return watch.poll_changes(rows, caller, since=max(position, since), wait=asked.wait, limit=limit,
                              respond=lambda rows: _changes(rows, since, limit, asked))


@blueprint.get("/v1/events")
@negotiation.produces("text/event-stream")
def stream_jobs() -> Response:
    """Server-sent events of every job that the caller may see."""
    known()
    return watch.stream_jobs(auth.caller(), since=watch.position(), last_event_id=request.headers.get("Last-Event-ID"))


def _page(rows: list[Row], following: str | None) -> Response:
    body = f'{{"jobs":[{",".join(reads.render(row, base_url()) for row in rows)}],"next":{json.dumps(following)}}}'
    response = Response(body, content_type="application/json")
    response.headers["Cache-Control"] = "private, no-cache"
    if following:
        response.headers["Link"] = f'<{following}>; rel="next"'
    return response


def _changes(rows: list[Row], since: int, limit: int, asked: Asked) -> Response:
    """A page of the feed. Needs no request: the hub answers with it, too."""
    shown = rows[:limit]
    entries = ",".join(f'{{"id":"{row.id}","deleted":true}}' if row.purged_at else reads.render(row, asked.base_url)
                       for row in shown)
    cursor = shown[-1].version if shown else since
    more = json.dumps(len(rows) > limit)
    body = f'{{"changes":[{entries}],"nextCursor":"{cursor}","hasMore":{more}}}'
    response = Response(body, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    if asked.prefer_applied:
        response.headers.update({"Preference-Applied": asked.prefer_applied, "Vary": "Prefer"})
    return response
