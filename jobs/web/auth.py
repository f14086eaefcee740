"""Who is asking: a bearer key, or the dashboard's session cookie for reading.

Every view needs a caller unless it is marked `@public`; the dashboard guards its own pages. What a caller may not see is
answered like what does not exist.
"""

from collections.abc import Callable
from typing import TypeVar

from flask import current_app, g, request, session

from jobs import clock
from jobs.core import access
from jobs.core.access import Caller, Role
from jobs.core.audit import Actor, Door
from jobs.errors import Problem
from jobs.web import signed
from jobs.web.site import site

View = TypeVar("View", bound=Callable)
_USE_NOTED_EVERY = 60  # seconds
_last_noted: dict[int, float] = {}


def public(view: View) -> View:
    """Mark a view that needs no key (contract, section 8)."""
    view.public = True
    return view


def signable(view: View) -> View:
    """Mark a view that a signed address opens, too; a key that comes along with a good signature is not looked at."""
    view.signable = True
    return view


def guard() -> None:
    """Before each request: refuse it when it needs a caller and has none."""
    if request.method == "OPTIONS" or request.blueprint == "ui":
        return
    view = current_app.view_functions.get(request.endpoint or "")
    if getattr(view, "public", False) or request.endpoint == "static":
        return
    caller()


def caller() -> Caller:
    """The caller of this request; Problem 401 when there is none."""
    found = optional_caller()
    if found is None:
        raise unauthorized()
    return found


def optional_caller() -> Caller | None:
    """The caller of this request, or None; asks the database once per request."""
    if "caller" not in g:
        g.caller = _identify()
        if g.caller and g.caller.key_id:
            _note_use(g.caller)
    return g.caller


def actor() -> Actor:
    """Who acts by this request, as the audit names him. Take it before a transaction: that may run on another thread."""
    found = caller()
    door = Door.DASHBOARD if request.blueprint == "ui" else Door.API
    return Actor(found.owner, door, found.key_id, g.get("request_id"))


def admin() -> Caller:
    """The caller, who must be an admin; Problem 403 otherwise."""
    found = caller()
    if found.role != Role.ADMIN:
        raise Problem("forbidden", "Only a key with the role admin may do this.")
    return found


def submitter() -> Caller:
    """The caller, who must be allowed to make things; Problem 403 otherwise."""
    found = caller()
    if not access.may_submit(found):
        raise Problem("forbidden", "A key with the role read changes nothing; use one with the role submit.")
    return found


def steering(owner: str) -> Caller:
    """The caller, who must be allowed to steer things of `owner` that he can see; Problem 403 otherwise."""
    found = caller()
    if not access.may_steer(found, owner):
        raise Problem("forbidden", "A key with the role read changes nothing.")
    return found


def unauthorized(detail: str | None = None) -> Problem:
    """The 401 of RFC 9110, section 15.5.2, with its challenge (RFC 6750)."""
    return Problem("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="accepted"'})


def _identify() -> Caller | None:
    if _bears_signature():
        return Caller("", Role.READ, None)
    header = request.headers.get("Authorization", "")
    scheme, _, token = header.partition(" ")
    if header:
        if scheme.lower() != "bearer" or not token.strip():
            raise unauthorized("Send the key as: Authorization: Bearer acc_…")
        found = access.authenticate(site().db.read(), token.strip())
        if found is None:
            raise unauthorized("The key is unknown, expired or revoked.")
        return found
    # The cookie reads the API; whatever changes something goes through the dashboard's own forms.
    if "signed_in" in session and (request.blueprint == "ui" or request.method in ("GET", "HEAD")):
        return access.by_session(site().db.read(), session["signed_in"])
    return None


def _bears_signature() -> bool:
    signature = request.args.get(signed.PARAMETER)
    return bool(signature and request.method in ("GET", "HEAD")
                and getattr(current_app.view_functions.get(request.endpoint or ""), "signable", False)
                and signed.is_good(site().settings, request.path, signature))


def _note_use(found: Caller) -> None:
    now = clock.monotonic()
    if now - _last_noted.get(found.key_id, -_USE_NOTED_EVERY) < _USE_NOTED_EVERY:
        return
    _last_noted[found.key_id] = now
    try:
        site().db.write(lambda tx: access.note_use(tx, found.key_id), durable=False)
    except Exception:
        current_app.logger.warning("The last use of key %s could not be noted.", found.key_id)
