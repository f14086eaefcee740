"""Audit: who did what, for admins."""

import json
import re
from typing import Any

from flask import Response, redirect, render_template, request, url_for

from jobs.core import audit
from jobs.core.audit import Act
from jobs.db import Row
from jobs.web import auth
from jobs.web.queries import job_id
from jobs.web.site import site

_PAGE = 50
_PAGES = {"jobs": ("ui.job", "job_id"), "webhook-endpoints": ("ui.endpoint", "endpoint_id")}  # of subjects that have one

_FORMS = {"made": "→ #%s", "hint": "%s…"}   # how members of a detail are written that do not speak for themselves


def listing() -> Response | str:
    """Acts, the newest first; `act`, `actor` and `on` (a job's number, or a path) narrow the list."""
    auth.admin()
    sought = {name: text for name in ("act", "actor", "on") if (text := request.args.get(name, "").strip()[:200].replace("\0", ""))}
    if any(not value for value in request.args.values()):   # a form names every field; an address only what is meant
        return redirect(url_for("ui.acts", **sought))
    before = job_id("before")
    rows = audit.page(site().db.read(), _PAGE + 1, before, **_wanted(sought))
    older = url_for("ui.acts", before=rows[_PAGE - 1].id, **sought) if len(rows) > _PAGE else None
    return render_template("acts.html", acts=[_shown(row) for row in rows[:_PAGE]], sought=sought, kinds=list(Act), older=older,
                           before=before)


def _wanted(sought: dict[str, str]) -> dict[str, str]:
    wanted = {name: sought[name] for name in ("act", "actor") if name in sought}
    if "on" in sought:
        number = re.fullmatch(r"#?(\d+)", sought["on"])
        wanted["subject"] = f"/v1/jobs/{number[1]}" if number else sought["on"]
    return wanted


def _shown(row: Row) -> dict[str, Any]:
    kind, _, number = row.subject.removeprefix("/v1/").partition("/")
    endpoint, argument = _PAGES.get(kind, ("", ""))
    page = url_for(endpoint, **{argument: int(number)}) if endpoint and number.isdigit() else None
    told = [_FORMS.get(name, "%s") % _text(value) for name, value in json.loads(row.detail).items() if value not in (None, "")]
    return dict(row) | {"page": page, "told": told}


def _text(value: Any) -> str:
    """A member of an act's detail, as far as a line has room."""
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:200]
