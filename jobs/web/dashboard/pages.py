"""The pages for reading, and the regions of them that live updates fetch again: one template renders both."""

from typing import Any

from flask import render_template, request, url_for

from jobs import clock
from jobs.core import overview as glance
from jobs.core import reads, tallies
from jobs.core.states import Priority, Status
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth
from jobs.web.dashboard import forms, shown
from jobs.web.site import base_url, site

RUNNING_SHOWN, WAITING_SHOWN, ENDED_SHOWN = 30, 12, 8
PAGE = 50
LOG_LINES = 300
_TROUBLED = (Status.FAILED, Status.PARTIAL)
_WELL = (Status.SUCCEEDED, Status.CANCELLED)


def home():
    """What runs, what waits, what ended lately."""
    return render_template("overview.html", **_glance())


def home_region():
    """The live part of the overview."""
    return render_template("regions/overview.html", **_glance())


def _glance() -> dict[str, Any]:
    caller, reader = auth.caller(), site().db.read()
    rows = {
        "running": glance.running(reader, caller.scope, RUNNING_SHOWN),
        "waiting": glance.waiting(reader, caller.scope, WAITING_SHOWN, clock.wire(clock.now())),
        "troubled": glance.lately(reader, caller.scope, _TROUBLED, ENDED_SHOWN),
        "ended": glance.lately(reader, caller.scope, _WELL, ENDED_SHOWN),
    }
    return {name: _show(found) for name, found in rows.items()} | {"counts": tallies.by_status(reader, caller.scope)}


def job_list():
    """Jobs, newest first, by status, type and words."""
    caller, reader, filters = auth.caller(), site().db.read(), _filters()
    before = request.args.get("before", type=int)
    rows = reads.page(reader, PAGE + 1, before=before, owner=caller.scope, **{
        name: (value,) if name in ("status", "type") else value for name, value in filters.items()})
    older = url_for("ui.job_list", before=rows[PAGE - 1].id, **filters) if len(rows) > PAGE else None
    return render_template("jobs.html", jobs=_show(rows[:PAGE]), filters=filters, before=before, older=older,
                           counts=tallies.by_status(reader, caller.scope), types=site().registry)


def job_rows():
    """The rows of these jobs, for a list that is on show."""
    ids = tuple(int(one) for one in request.args.get("ids", "").split(",") if one.isdecimal() and len(one) < 19)[:PAGE]
    rows = reads.page(site().db.read(), PAGE, owner=auth.caller().scope, ids=ids) if ids else []
    return render_template("regions/rows.html", jobs=_show(rows))


def job_page(job_id: int):
    """Everything about one job."""
    return render_template("job.html", **_whole(job_id))


def job_region(job_id: int):
    """The live part of a job's page."""
    return render_template("regions/job.html", **_whole(job_id))


def job_log(job_id: int):
    """The last lines of a job's log."""
    row = visible_job(job_id)
    return render_template("regions/log.html", job=_show([row])[0], lines=_log(row))


def job_types():
    """What this server can do."""
    return render_template("types.html", types=[(declared, forms.fields(declared)) for declared in site().registry])


def visible_job(job_id: int) -> Row:
    """The row of a job that the reader may see. Problem 404 for what is not there and what is somebody else's; 410 once purged."""
    caller = auth.caller()
    row = reads.get(site().db.read(), job_id) if 0 < job_id < 2**63 else None
    if row is None or (caller.scope is not None and caller.scope != row.owner):
        raise Problem("not-found")
    if row.purged_at:
        raise Problem("gone")
    return row


def _whole(job_id: int) -> dict[str, Any]:
    reader = site().db.read()
    row = visible_job(job_id)
    return {"job": _show([row])[0], "events": glance.history(reader, job_id), "lines": _log(row),
            "attempts": {one.attempt: one for one in glance.attempts(reader, job_id)},
            "artifacts": glance.artifacts(reader, job_id), "resource": _resource(row), "base_url": base_url()}


def _resource(row: Row) -> dict[str, Any] | None:
    """The business resource of the job, as its own address shows it; None while nothing but the placeholder is there."""
    from jobs.core import resources
    import json

    found = row.resource_id and site().db.read().one("SELECT * FROM resources WHERE id = :id", id=row.resource_id)
    if not found or found.job_id != row.id:
        return None
    return resources.render(found) | {"href": resources.path(found), "collection": found.collection,
                                      "fields": json.loads(found.fields)}


def _log(row: Row) -> list[Row]:
    return glance.log_tail(site().db.read(), row.id, LOG_LINES)


def _show(rows: list[Row]) -> list[shown.Shown]:
    return shown.show(rows, site().registry, auth.caller())


def _filters() -> dict[str, str]:
    """The filter that the address names; what cannot be one is left out, since a person may have typed it."""
    args = request.args
    found = {"status": args.get("status") if args.get("status") in set(Status) else None, "type": args.get("type"),
             "q": (args.get("q") or "").strip()[:200].replace("\0", "")}
    return {name: value for name, value in found.items() if value}


__all__ = ["Priority"]
