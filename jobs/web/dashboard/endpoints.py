"""Webhook endpoints: who is told of what, whether it works, and what was sent there."""

import json
from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for
from flask_babel import gettext

from jobs.core import access
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, callbacks, receiver_acts, schemas
from jobs.web.dashboard.callbacks import shown
from jobs.web.dashboard.protection import check_form
from jobs.web.problems import not_found
from jobs.web.queries import job_id
from jobs.web.site import site
from jobs.webhooks import catalogue, log, outbox, receivers

_PAGE = 30


def listing() -> str:
    """The endpoints that the reader may see."""
    return _list()


def create() -> Response | tuple[str, int]:
    """Register one; its page then shows the secret."""
    check_form()
    owner, form = auth.submitter().owner, request.form
    asked = {"url": form.get("url", "").strip(), "events": form.getlist("events"), "description": form.get("description", "").strip()}
    try:
        row = receiver_acts.register(owner, schemas.load(callbacks.Wanted(), asked))
    except Problem as problem:
        if problem.status not in (400, 422):
            raise
        return _list(asked, problem), 422
    return _page(row, fresh=True), 201


def page(endpoint_id: int) -> str:
    """One endpoint and its deliveries."""
    return _page(_find(endpoint_id))


def act(endpoint_id: int, verb: str) -> Response | str:
    """Enable, disable, test, delete, or make a new secret, which is shown."""
    check_form()
    row = _find(endpoint_id)
    auth.steering(row.owner)
    if verb in ("enable", "disable"):
        receiver_acts.change(row, {}, f"{verb}d")
    elif verb == "ping":
        site().db.write(lambda tx: outbox.ping(tx, row))
        flash(gettext("A test is on its way; reload the page to see what came of it."))
    elif verb == "rotate":
        receiver_acts.rotate(row.owner, receivers.of_endpoint(row.id), receiver_acts.path(row))
        return _page(row, fresh=True)
    elif verb == "delete":
        receiver_acts.remove(row)
        flash(gettext("The endpoint was deleted."))
        return redirect(url_for("ui.endpoints"), 303)
    return redirect(url_for("ui.endpoint", endpoint_id=row.id), 303)


def _list(asked: dict[str, Any] | None = None, problem: Problem | None = None) -> str:
    faults = [one["detail"] for one in problem.extra.get("errors", ())] or [problem.detail or problem.title] if problem else []
    rows = receivers.listed(site().db.read(), auth.caller().scope)
    types = catalogue.event_types(declared.collection for declared in site().registry if declared.collection)
    return render_template("endpoints.html", endpoints=[_shown(row) for row in rows], types=[one.type for one in types],
                           asked=asked or {"url": "", "events": ["*"], "description": ""}, faults=faults)


def _page(row: Row, fresh: bool = False) -> str:
    reader = site().db.read()
    secrets = receivers.secrets_of(reader, row.owner, receivers.of_endpoint(row.id)) if fresh else []
    before = job_id("before")
    rows = log.of_endpoint(reader, row.id, before, _PAGE + 1)
    older = url_for("ui.endpoint", endpoint_id=row.id, before=rows[_PAGE - 1].id) if len(rows) > _PAGE else None
    return render_template("endpoint.html", one=_shown(row), secret=secrets[0].secret if secrets else None,
                           deliveries=shown(rows[:_PAGE]), older=older)


def _shown(row: Row) -> dict[str, Any]:
    return dict(row) | {"events": json.loads(row.events), "may_steer": access.may_steer(auth.caller(), row.owner)}


def _find(endpoint_id: int) -> Row:
    row = receivers.get(site().db.read(), endpoint_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    return row
