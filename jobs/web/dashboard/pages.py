"""The pages for reading, and the regions of them that live updates fetch again: one template renders both."""

from typing import Any

from flask import render_template, request, url_for

from jobs import clock
from jobs.artifacts import records
from jobs.core import overview, reads, tallies
from jobs.core.states import Status
from jobs.db import Row
from jobs.web import auth
from jobs.web.api import find
from jobs.web.dashboard import forms, outcome
from jobs.web.dashboard.shown import Shown, show
from jobs.web.queries import job_id
from jobs.web.site import base_url, site

RUNNING_SHOWN, WAITING_SHOWN, ENDED_SHOWN = 30, 12, 8
PAGE = 50
LOG_LINES = 300
_TROUBLED = (Status.FAILED, Status.PARTIAL)
_WELL = (Status.SUCCEEDED, Status.CANCELLED)


def home() -> str:
    """What runs, what waits, what ended lately."""
    return render_template("overview.html", **_glance())


def home_region() -> str:
    """The live part of the overview."""
    return render_template("regions/overview.html", **_glance())


def job_list() -> str:
    """Jobs, newest first, by status, type and words."""
    caller, reader, filters = auth.caller(), site().db.read(), _filters()
    before = job_id("before")
    rows = reads.page(reader, PAGE + 1, before=before, owner=caller.scope, **{
        name: (value,) if name in ("status", "type") else value for name, value in filters.items()})
    older = url_for("ui.job_list", before=rows[PAGE - 1].id, **filters) if len(rows) > PAGE else None
    return render_template("jobs.html", jobs=_show(rows[:PAGE]), filters=filters, before=before, older=older,
                           counts=tallies.by_status(reader, caller.scope), types=site().registry)


def job_rows() -> str:
    """The rows of these jobs, for a list that is on show."""
    asked = request.args.get("ids", "").split(",")
    ids = tuple(int(one) for one in asked if one.isascii() and one.isdigit() and len(one) < 19)
    rows = reads.page(site().db.read(), PAGE, owner=auth.caller().scope, ids=ids[:PAGE]) if ids else []
    return render_template("regions/rows.html", jobs=_show(rows))


def job_page(job_id: int) -> str:
    """Everything about one job."""
    return render_template("job.html", **_whole(find(job_id)))


def job_region(job_id: int) -> str:
    """The live part of a job's page."""
    return render_template("regions/job.html", **_whole(find(job_id)))


def job_types() -> str:
    """What this server can do."""
    return render_template("types.html", types=[(declared, forms.inputs(declared)) for declared in site().registry])


def _glance() -> dict[str, Any]:
    scope, reader = auth.caller().scope, site().db.read()
    rows = {
        "running": overview.running(reader, scope, RUNNING_SHOWN),
        "waiting": overview.waiting(reader, scope, WAITING_SHOWN, clock.wire(clock.now())),
        "troubled": overview.lately(reader, scope, _TROUBLED, ENDED_SHOWN),
        "ended": overview.lately(reader, scope, _WELL, ENDED_SHOWN)}
    return {name: _show(found) for name, found in rows.items()} | {"counts": tallies.by_status(reader, scope)}


def _whole(row: Row) -> dict[str, Any]:
    reader = site().db.read()
    artifacts = [one for one in records.of_job(reader, row.id) if one.kind != "upload"]
    return {
        "job": _show([row])[0], "events": overview.history(reader, row.id),
        "lines": overview.log_tail(reader, row.id, LOG_LINES),
        "attempts": {one.attempt: one for one in overview.attempts(reader, row.id)},
        "outcome": outcome.of(reader, row, artifacts), "base_url": base_url()}


def _show(rows: list[Row]) -> list[Shown]:
    return show(rows, site().registry, auth.caller())


def _filters() -> dict[str, str]:
    """The filter that the address names; what cannot be one is left out, since a person may have typed it."""
    args = request.args
    found = {"status": args.get("status") if args.get("status") in list(Status) else None, "type": args.get("type"),
             "q": (args.get("q") or "").strip()[:200]}
    return {name: value.replace("\0", "") for name, value in found.items() if value}
