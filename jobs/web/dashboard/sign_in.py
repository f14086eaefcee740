"""Signing in with a key or by a one-time link, and out again.

The cookie holds a token of a row in `sessions`, never the key: with the row every copy of the cookie loses its worth.
"""

from contextlib import suppress

from flask import Response, current_app, make_response, redirect, render_template, request, session, url_for

from jobs import clock
from jobs.core import access
from jobs.core.access import Caller
from jobs.errors import Problem, StorageUnavailable
from jobs.web import auth
from jobs.web.dashboard.addresses import own_page
from jobs.web.dashboard.protection import check_form, new_token
from jobs.web.site import site

_DAY = 86400.0


def reader() -> Caller | None:
    """Who looks at this page; None also when that cannot be found out: a page of bad news can then still be shown."""
    try:
        return auth.optional_caller()
    except (Problem, StorageUnavailable):
        return None


def to_sign_in() -> Response:
    """The answer to somebody who has not signed in: the form, and from there back to where he wanted to go."""
    back = request.full_path.rstrip("?") if request.method == "GET" else ""
    return redirect(url_for("ui.sign_in", back=request.script_root + back if back else None), 303)


def sign_in():
    """The form that takes a key."""
    if request.method == "GET":
        return _form()
    check_form()
    found = access.authenticate(site().db.read(), request.form.get("key", "").strip())
    if found is None:
        return _form(refused="key"), 401
    return _enter(found)


def sign_in_by_link(link: str):
    """GET shows a button, so that a program that follows links does not spend this one; POST spends it."""
    if request.method == "GET":
        return render_template("sign_in.html", link=link, back="")
    check_form()
    found = site().db.write(lambda tx: access.use_sign_in_link(tx, link))
    if found is None:
        return _form(refused="link"), 401
    return _enter(found)


def renew(found: Caller) -> None:
    """A session lasts as long as it is used, on a wall for instance; once a day its end is moved."""
    lifetime = current_app.permanent_session_lifetime.total_seconds()
    if found.session_ends and clock.seconds_until(found.session_ends) < lifetime - _DAY:
        with suppress(StorageUnavailable):      # it may be read meanwhile, and tomorrow is another day
            site().db.write(lambda tx: access.renew_session(tx, found.session, lifetime), durable=False)
            session.modified = True


def sign_out() -> Response:
    """End this browser's session, or with `everywhere` those of all browsers in which the same key has signed in."""
    check_form()
    found = reader()
    if found and found.session:
        everywhere = "everywhere" in request.form
        site().db.write(lambda tx: access.end_sessions(tx, found.key_id) if everywhere
                        else access.end_session(tx, found.session))
    session.clear()
    return redirect(url_for("ui.sign_in"), 303)


def _enter(found: Caller) -> Response:
    lifetime = current_app.permanent_session_lifetime.total_seconds()
    token = site().db.write(lambda tx: access.begin_session(tx, found.key_id, lifetime))
    session.clear()  # nothing of a session that somebody else may have begun lives on
    session.permanent = True
    session["signed_in"] = token
    new_token()
    return redirect(own_page(request.form.get("back", "")), 303)


def _form(refused: str | None = None) -> Response:
    back = request.values.get("back", "")
    return make_response(render_template("sign_in.html", refused=refused, back=back, link=None))
