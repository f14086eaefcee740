"""Who did what, for admins: the audit."""

from typing import Any

from flask import Blueprint, request

from jobs.core import audit
from jobs.core.audit import Act
from jobs.web import auth, cursors, negotiation
from jobs.web.queries import check_known, known, page_limit
from jobs.web.site import base_url, site

blueprint = Blueprint("acts", __name__)
blueprint.before_request(negotiation.check)
FILTERS = ("act", "actor", "subject", "owner")


@blueprint.get("/v1/audit")
def list_acts() -> tuple[dict[str, Any], dict[str, str]]:
    """Acts, the newest first; `?subject=/v1/jobs/501` is what was done to one thing."""
    known(*FILTERS, "limit", "cursor")
    auth.admin()
    wanted = {name: request.args[name] for name in FILTERS if name in request.args}
    check_known("act", [wanted["act"]] if "act" in wanted else [], Act)
    limit, scope = page_limit(), cursors.fingerprint(["audit", wanted])
    before = cursors.read(request.args["cursor"], scope) if "cursor" in request.args else None
    rows = audit.page(site().db.read(), limit + 1, before, **wanted)
    more = cursors.next_url(base_url(), cursors.make(rows[limit - 1].id, scope)) if len(rows) > limit else None
    return {"acts": [audit.render(row) for row in rows[:limit]], "next": more}, {"Cache-Control": "no-store"}
