"""The pages for reading, and the regions of them that live updates fetch again: one template renders both."""

import json
from typing import Any

from flask import Response, redirect, render_template, request, url_for

from jobs import clock
from jobs.artifacts import records
from jobs.core import audit, overview, reads, tallies
from jobs.core.audit import Act
from jobs.core.states import Status
from jobs.db import Row
from jobs.web import auth, filters
from jobs.web.api import find
from jobs.web.dashboard import callbacks, forms, health, outcome, search, snippets, statistics
from jobs.web.dashboard.shown import Shown, show
from jobs.web.queries import job_id
from jobs.web.site import base_url, site
from jobs.webhooks import log

RUNNING_SHOWN, WAITING_SHOWN, ENDED_SHOWN = 30, 12, 8
SIZES = (50, 100, 200)
LOG_LINES = 300
_TROUBLED = (Status.FAILED, Status.PARTIAL)
_WELL = (Status.SUCCEEDED, Status.CANCELLED)


def home() -> str:
    """What runs, what waits, what ended lately."""
    return render_template("overview.html", **_glance())


def home_region() -> str:
    """The live part of the overview."""
    return render_template("regions/overview.html", **_glance())


def job_list() -> Response | str:
    """Jobs, newest first, by all that a search can say."""
    sought = search.of_address()
    if any(not value for value in request.args.values()):  # a form names every field; an address only what is meant
        return redirect(url_for("ui.job_list", **sought.query()))
    before, size = job_id("before"), _size()
    rows = _page_of(sought, size + 1, before)
    older = url_for("ui.job_list", before=rows[size - 1].id, rows=_said(size), **sought.query()) if len(rows) > size else None
    return render_template("jobs.html", jobs=_show(rows[:size]), sought=sought, before=before, older=older, size=size, sizes=SIZES,
                           rows=_said(size), counts=tallies.by_status(site().db.read(), auth.caller().scope),
                           types=site().registry)


def job_rows() -> str:
    """The rows of these jobs, for a list that is on show."""
    ids = _ids()[:SIZES[-1]]
    rows = reads.page(site().db.read(), len(ids), owner=auth.caller().scope, ids=ids) if ids else []
    return render_template("regions/rows.html", jobs=_show(rows))


def newer() -> str:
    """How many jobs stand on the first page of a search now that do not stand on a page made earlier (`ids`)."""
    sought, shown, size = search.of_address(), set(_ids()), _size()
    rows = _page_of(sought, size)
    return render_template("regions/newer.html", number=sum(row.id not in shown for row in rows), size=size,
                           here=url_for("ui.job_list", rows=_said(size), **sought.query()))


def job_page(job_id: int) -> str:
    """Everything about one job; `?find=text` shows the lines of its log that have the text."""
    row = find(job_id)
    sought = (request.args.get("find") or "").strip()[:200].replace("\0", "")
    lines = overview.log_tail(site().db.read(), job_id, LOG_LINES + 1, sought)
    return render_template("job.html", **_whole(row), lines=lines[-LOG_LINES:], sought=sought,
                           more_lines=len(lines) > LOG_LINES)


def job_region(job_id: int) -> str:
    """The live part of a job's page; its log follows by a stream of its own."""
    return render_template("regions/job.html", **_whole(find(job_id)))


def job_types() -> str:
    """What this server can do."""
    return render_template("types.html", types=[(declared, forms.inputs(declared)) for declared in site().registry])


def _page_of(sought: search.Search, limit: int, before: int | None = None) -> list[Row]:
    wanted = filters.scoped(sought.wanted(), auth.caller())
    return [] if wanted is None else reads.page(site().db.read(), limit, before=before, **wanted)


def _ids() -> tuple[int, ...]:
    asked = request.args.get("ids", "").split(",")
    return tuple(int(one) for one in asked if one.isascii() and one.isdigit() and len(one) < 19)


def _size() -> int:
    """Rows of a page, as the address asks for them."""
    return next((size for size in SIZES if str(size) == request.args.get("rows")), SIZES[0])


def _said(size: int) -> int | None:
    """How an address says the size of a page: not at all where it is the usual one."""
    return size if size != SIZES[0] else None


def _glance() -> dict[str, Any]:
    scope, reader = auth.caller().scope, site().db.read()
    rows = {
        "running": overview.running(reader, scope, RUNNING_SHOWN),
        "waiting": overview.waiting(reader, scope, WAITING_SHOWN, clock.wire(clock.now())),
        "troubled": overview.lately(reader, scope, _TROUBLED, ENDED_SHOWN),
        "ended": overview.lately(reader, scope, _WELL, ENDED_SHOWN)}
    span = request.args.get("span", "")
    span = span if span in statistics.SPANS else "day"
    return {name: _show(found) for name, found in rows.items()} | {
        "counts": tallies.by_status(reader, scope), "health": health.look(site(), reader, auth.caller()), "span": span,
        "figures": statistics.of(reader, scope, span, id(site().db))}


def _whole(row: Row) -> dict[str, Any]:
    reader = site().db.read()
    acts = audit.of_subject(reader, f"/v1/jobs/{row.id}")
    artifacts = [one for one in records.of_job(reader, row.id) if one.kind != "upload"]
    return {
        "job": _show([row])[0], "events": overview.history(reader, row.id),
        "cancelled": next((act for act in acts if act.act == Act.CANCEL), None),
        "retries": [(act, json.loads(act.detail)["made"]) for act in acts if act.act == Act.RETRY],
        "deliveries": callbacks.shown(log.of_job(reader, row.id)), "snippets": snippets.of(row, base_url()),
        "attempts": {one.attempt: one for one in overview.attempts(reader, row.id)},
        "outcome": outcome.of(reader, row, artifacts)}


def _show(rows: list[Row]) -> list[Shown]:
    return show(rows, site().registry, auth.caller())
