"""What was sent about jobs, and sending it again."""

from typing import Any

from flask import Response, flash, redirect, request
from flask_babel import gettext

from jobs.core import access
from jobs.core.access import Role
from jobs.db import Row
from jobs.web import auth, receiver_acts
from jobs.web.dashboard.addresses import own_page
from jobs.web.dashboard.protection import check_form
from jobs.web.problems import not_found
from jobs.web.site import site
from jobs.webhooks import log, receivers


def shown(rows: list[Row]) -> list[dict[str, Any]]:
    """Deliveries for this reader, each with its attempts and whether he may have it sent again."""
    reader, caller = site().db.read(), auth.caller()
    found = log.render(reader, rows, for_admin=caller.role == Role.ADMIN)
    return [one | {"may_redeliver": access.may_steer(caller, row.owner)} for one, row in zip(found, rows, strict=True)]


def redeliver(delivery_id: int) -> Response:
    """Send it again now, and go back to the page on which it was listed."""
    check_form()
    row = log.get(site().db.read(), delivery_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    auth.steering(row.owner)
    if _is_closed(row):
        flash(gettext("The endpoint is disabled or gone. Enable it first, then send again."))
    else:
        receiver_acts.redeliver(row)
        flash(gettext("It is being sent again."))
    return redirect(own_page(request.form.get("back", "")), 303)


def _is_closed(row: Row) -> bool:
    """Whether the endpoint that it went to takes nothing now."""
    if row.endpoint_id is None:
        return False
    endpoint = receivers.get(site().db.read(), row.endpoint_id)
    return endpoint is None or endpoint.disabled_at is not None
