"""For admins: the keys, and the settings in force."""

from flask import Response, flash, redirect, render_template, request, url_for
from flask_babel import gettext

from jobs import clock, settings_table
from jobs.core import access
from jobs.core.access import Role
from jobs.errors import Problem
from jobs.settings import PREFIX, TABLE
from jobs.web import auth, schemas
from jobs.web.administration import NewKey, find_key
from jobs.web.dashboard.protection import check_form
from jobs.web.site import site


def keys() -> str:
    """All keys, the newest first."""
    auth.admin()
    return _keys()


def make_key() -> tuple[str, int]:
    """Make one; this page is the only one that ever shows it."""
    check_form()
    auth.admin()
    asked = {name: request.form.get(name, "").strip() for name in ("owner", "role", "name", "expires")}
    wanted = {name: asked[name] for name in ("owner", "role", "name")}
    if asked["expires"]:
        wanted["expiresAt"] = f"{asked['expires']}T23:59:59Z"
    try:
        loaded = schemas.load(NewKey(), wanted)
    except Problem as problem:
        return _keys(asked, problem=problem), 422
    actor = auth.actor()
    return _keys(made=site().db.write(lambda tx: access.make_key(tx, **loaded, by=actor))), 201


def revoke_key(key_id: int) -> Response:
    """End a key at once."""
    check_form()
    mine = auth.admin().key_id
    find_key(key_id)
    if key_id == mine:
        flash(gettext("This is the key you signed in with; another admin can revoke it."))
    else:
        actor = auth.actor()
        site().db.write(lambda tx: access.revoke(tx, key_id, actor))
        flash(gettext("The key was revoked."))
    return redirect(url_for("ui.keys"), 303)


def settings() -> str:
    """Every setting: its value, whether it was given, and what it means."""
    auth.admin()
    given = site().settings.environment
    rows = [(PREFIX + row.name, settings_table.covered(row.name, given.get(PREFIX + row.name, row.default)),
             PREFIX + row.name in given, row) for row in TABLE]
    return render_template("settings.html", rows=rows)


def _keys(asked: dict[str, str] | None = None, problem: Problem | None = None, made: str | None = None) -> str:
    faults = {one["pointer"].removeprefix("#/").replace("expiresAt", "expires"): one["detail"]
              for one in problem.extra.get("errors", ())} if problem else {}
    rows = site().db.read().all("SELECT * FROM keys ORDER BY revoked_at IS NOT NULL, id DESC LIMIT 500")
    return render_template("keys.html", keys=rows, asked=asked or {"role": "submit"}, faults=faults, made=made, roles=list(Role),
                           now=clock.wire(clock.now()))
