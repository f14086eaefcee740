"""What is done to endpoints, secrets and deliveries, by the API and by the dashboard alike; each act with its audit line.

Who calls has made sure that the caller may steer them.
"""

import json
from typing import Any

from jobs.core import audit
from jobs.core.audit import Act
from jobs.db import Row, Transaction
from jobs.errors import Problem
from jobs.web import auth
from jobs.web.site import site
from jobs.webhooks import log, receivers

_BY_HAND = "Its owner wished so."


def register(owner: str, wanted: dict[str, Any]) -> Row:
    """Store an endpoint whose members have passed the schema. Problems 422."""
    actor = auth.actor()
    site().guard.check_url(wanted["url"], pointer="#/url")
    if len(receivers.listed(site().db.read(), owner)) >= receivers.MOST:
        raise Problem("invalid-payload", f"An owner has at most {receivers.MOST} endpoints; delete one first.")

    def write(tx: Transaction) -> Row:
        row = receivers.register(tx, owner, **wanted)
        audit.note(tx, actor, Act.MAKE_ENDPOINT, path(row), owner, url=row.url)
        return row

    return site().db.write(write)


def change(row: Row, wanted: dict[str, Any], status: str | None = None) -> Row | None:
    """Write what is wanted of an endpoint's members, then `enabled` or `disabled`; None when it is gone meanwhile."""
    actor = auth.actor()
    if "url" in wanted:
        site().guard.check_url(wanted["url"], pointer="#/url")
    kept = {"url": row.url, "events": json.loads(row.events), "description": row.description}

    def write(tx: Transaction) -> Row | None:
        if wanted and receivers.change(tx, row.id, **kept | wanted):
            audit.note(tx, actor, Act.CHANGE_ENDPOINT, path(row), row.owner, **wanted)
        if status == "enabled" and receivers.enable(tx, row.id):
            audit.note(tx, actor, Act.ENABLE_ENDPOINT, path(row), row.owner, url=row.url)
        if status == "disabled" and receivers.disable(tx, row.id, _BY_HAND):
            audit.note(tx, actor, Act.DISABLE_ENDPOINT, path(row), row.owner, url=row.url)
        return receivers.get(tx, row.id)

    return site().db.write(write)


def remove(row: Row) -> None:
    """Delete an endpoint; what was on its way is given up."""
    actor = auth.actor()

    def write(tx: Transaction) -> None:
        if receivers.get(tx, row.id):
            receivers.remove(tx, row.id)
            audit.note(tx, actor, Act.DELETE_ENDPOINT, path(row), row.owner, url=row.url)

    site().db.write(write)


def rotate(owner: str, receiver: str, subject: str) -> None:
    """Give a receiver a new secret; the last one signs beside it for a day. `subject` is its path."""
    actor = auth.actor()

    def write(tx: Transaction) -> None:
        receivers.rotate(tx, owner, receiver)
        audit.note(tx, actor, Act.ROTATE_SECRET, subject, owner, receiver=receiver)

    site().db.write(write)


def redeliver(row: Row) -> Row | None:
    """Send one delivery (again) now; None when it is gone."""
    actor = auth.actor()

    def write(tx: Transaction) -> Row | None:
        sent = log.redeliver(tx, row.id)
        if sent:
            audit.note(tx, actor, Act.REDELIVER, f"/v1/deliveries/{row.id}", row.owner, url=row.url, type=row.type)
        return sent

    return site().db.write(write)


def redeliver_failed(since: str, owner: str | None, endpoint: Row | None = None) -> int:
    """Send again what failed since an instant, for an owner or all, to one endpoint or any; how many that were."""
    actor = auth.actor()
    subject = path(endpoint) if endpoint else "/v1/deliveries"

    def write(tx: Transaction) -> int:
        number = log.redeliver_failed(tx, since, owner, endpoint.id if endpoint else None)
        if number:
            audit.note(tx, actor, Act.REDELIVER, subject, owner, since=since, number=number)
        return number

    return site().db.write(write)


def path(row: Row) -> str:
    """Where an endpoint is."""
    return f"/v1/webhook-endpoints/{row.id}"
