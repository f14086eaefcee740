"""What a handler wrote while it worked: as JSON, as plain text, or as a stream that follows it."""

from typing import Any

from flask import Blueprint, Response, request

from jobs.core import journal
from jobs.web import auth, negotiation, watch
from jobs.web.api import find
from jobs.web.negotiation import EVENTS, JSON, TEXT
from jobs.web.queries import flag, known, number, page_limit
from jobs.web.site import site

blueprint = Blueprint("logs", __name__)
blueprint.before_request(negotiation.check)
DEFAULT_LINES, MAX_LINES = 1000, 5000


@blueprint.get("/v1/jobs/<id:job_id>/logs")
@negotiation.produces(JSON, TEXT, EVENTS)
def get_logs(job_id: int) -> Response | tuple[dict[str, Any], dict[str, str]]:
    """The lines after the id `after`; with `follow` those to come as well."""
    known("after", "limit", "follow")
    after, limit = number("after", 0), page_limit(DEFAULT_LINES, MAX_LINES)
    form, since = negotiation.chosen(JSON, TEXT, EVENTS), watch.position()
    row = find(job_id)
    if flag("follow") or form == EVENTS:
        last = request.headers.get("Last-Event-ID")
        return watch.follow_log(row, auth.caller(), since=since, after=after, last_event_id=last)
    lines = journal.read(site().db.read(), job_id, after, limit)
    caching = {"Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
    if form == TEXT:
        text = "".join(f"{line.created_at} {line.line}\n" for line in lines)
        return Response(text, content_type="text/plain; charset=utf-8", headers=caching)
    shown = [{"id": line.id, "attempt": line.attempt, "at": line.created_at, "line": line.line} for line in lines]
    return {"lines": shown, "next": lines[-1].id if lines else after}, caching
