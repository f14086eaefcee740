"""Callbacks, from the side of those who are told: the catalogue, endpoints, secrets, deliveries."""

import json
from typing import Any

from flask import Blueprint, Response, request
from marshmallow import RAISE, Schema, ValidationError, fields, validate, validates

from jobs.addresses import BadTarget, parse_url
from jobs.core import access
from jobs.core.access import Role
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, bodies, cursors, receiver_acts, schemas
from jobs.web.api import find, known, page_limit
from jobs.web.problems import not_found
from jobs.web.site import base_url, site
from jobs.webhooks import catalogue, log, outbox, receivers

blueprint = Blueprint("callbacks", __name__)
_PRIVATE = {"Cache-Control": "no-store"}


class Wanted(Schema):
    """A registered endpoint, as it is asked for."""

    class Meta:
        unknown = RAISE

    url = fields.Str(required=True)
    events = fields.List(fields.Str(), required=True, validate=validate.Length(1, 100))
    description = fields.Str(load_default="", validate=[
        validate.Length(max=500), validate.ContainsNoneOf("\0", error="A NUL character cannot be kept.")])

    @validates("events")
    def _known(self, events: list[str], **_: Any) -> None:
        published = {event.type for event in _catalogue()} | {"*"}
        faults = {place: [f"There is no event type {name!r}. GET /v1/event-types lists them."]
                  for place, name in enumerate(events) if name not in published}
        if faults:
            raise ValidationError(faults)


class Changed(Wanted):
    """What may be changed about an endpoint."""

    status = fields.Str(validate=validate.OneOf(("enabled", "disabled")))


class Since(Schema):
    """Which failed deliveries are to be sent again."""

    class Meta:
        unknown = RAISE

    since = schemas.Instant(required=True)


class Origin(Schema):
    """The receiver whose secret is to be rotated."""

    class Meta:
        unknown = RAISE

    origin = fields.Str(required=True)


# The catalogue


@blueprint.get("/v1/event-types")
def list_event_types() -> dict[str, Any]:
    """The types of events that can be subscribed to, each with the JSON Schema of its body."""
    known()
    return {"eventTypes": [event.describe() for event in _catalogue()]}


# Registered endpoints


@blueprint.get("/v1/webhook-endpoints")
def list_endpoints() -> dict[str, Any]:
    """The caller's endpoints; those of everybody for the roles that see all."""
    known()
    return {"endpoints": [receivers.render(row) for row in receivers.listed(site().db.read(), auth.caller().scope)]}


@blueprint.post("/v1/webhook-endpoints")
def register_endpoint() -> tuple[dict[str, Any], int, dict[str, str]]:
    """Register an endpoint; the answer holds its secret."""
    owner = auth.submitter().owner
    row = receiver_acts.register(owner, schemas.load(Wanted(), bodies.read_object()))
    return (receivers.render(row) | _secrets(owner, receivers.of_endpoint(row.id)), 201,
            _PRIVATE | {"Location": f"{base_url()}/v1/webhook-endpoints/{row.id}"})


@blueprint.get("/v1/webhook-endpoints/<id:endpoint_id>")
def get_endpoint(endpoint_id: int) -> dict[str, Any]:
    """One endpoint."""
    known()
    return receivers.render(_endpoint(endpoint_id))


@blueprint.patch("/v1/webhook-endpoints/<id:endpoint_id>")
def change_endpoint(endpoint_id: int) -> dict[str, Any]:
    """Change where it is, what it wants, or whether it is enabled."""
    row = _own_endpoint(endpoint_id)
    wanted = schemas.load(Changed(partial=True), bodies.read_object())
    status = wanted.pop("status", None)
    changed = receiver_acts.change(row, wanted, status)
    if changed is None:
        raise not_found()
    return receivers.render(changed)


@blueprint.delete("/v1/webhook-endpoints/<id:endpoint_id>")
def delete_endpoint(endpoint_id: int) -> Response:
    """Delete it; what was on its way is given up."""
    receiver_acts.remove(_own_endpoint(endpoint_id))
    return Response(status=204)


@blueprint.post("/v1/webhook-endpoints/<id:endpoint_id>:ping")
def ping_endpoint(endpoint_id: int) -> tuple[dict[str, Any], int]:
    """Send a test, even to a disabled endpoint; one attempt."""
    row = _own_endpoint(endpoint_id)
    delivery_id = site().db.write(lambda tx: outbox.ping(tx, row))
    return _shown([log.get(site().db.read(), delivery_id)])[0], 202


@blueprint.get("/v1/webhook-endpoints/<id:endpoint_id>/deliveries")
def list_endpoint_deliveries(endpoint_id: int) -> dict[str, Any]:
    """What was sent there, the newest first."""
    known("limit", "cursor")
    _endpoint(endpoint_id)
    limit, scope = page_limit(), cursors.fingerprint(["deliveries", endpoint_id])
    before = cursors.read(request.args["cursor"], scope) if "cursor" in request.args else None
    rows = log.of_endpoint(site().db.read(), endpoint_id, before, limit + 1)
    more = cursors.next_url(base_url(), cursors.make(rows[limit - 1].id, scope)) if len(rows) > limit else None
    return {"deliveries": _shown(rows[:limit]), "next": more}


@blueprint.post("/v1/webhook-endpoints/<id:endpoint_id>:redeliver")
def redeliver_to_endpoint(endpoint_id: int) -> tuple[dict[str, Any], int]:
    """Send again all that failed since a time."""
    row = _own_endpoint(endpoint_id)
    _must_be_enabled(row)
    since = schemas.load(Since(), bodies.read_object())["since"]
    return {"redelivered": receiver_acts.redeliver_failed(since, row.owner, row)}, 202


# Secrets


@blueprint.get("/v1/webhook-endpoints/<id:endpoint_id>/secrets")
def get_endpoint_secrets(endpoint_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """The secrets by which the endpoint knows us, the newest first."""
    known()
    row = _own_endpoint(endpoint_id)
    return _secrets(row.owner, receivers.of_endpoint(endpoint_id)), _PRIVATE


@blueprint.post("/v1/webhook-endpoints/<id:endpoint_id>:rotate")
def rotate_endpoint_secret(endpoint_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Make a new secret; the last one signs beside it for a day."""
    row = _own_endpoint(endpoint_id)
    receiver_acts.rotate(row.owner, receivers.of_endpoint(endpoint_id), receiver_acts.path(row))
    return _secrets(row.owner, receivers.of_endpoint(endpoint_id)), _PRIVATE


@blueprint.get("/v1/callback-secrets")
def get_callback_secrets() -> tuple[dict[str, Any], dict[str, str]]:
    """The secrets of the caller's callback URLs with this origin, made if there are none yet."""
    known("origin")
    if "origin" not in request.args:
        raise Problem("bad-parameter", "Name the origin of your callback URLs: ?origin=https://example.com")
    owner = auth.submitter().owner
    origin = _origin(request.args["origin"], Problem("bad-parameter", "origin is an http or https URL."))
    if not receivers.secrets_of(site().db.read(), owner, origin):
        site().db.write(lambda tx: receivers.ensure_secret(tx, owner, origin))
    return {"origin": origin} | _secrets(owner, origin), _PRIVATE


@blueprint.post("/v1/callback-secrets:rotate")
def rotate_callback_secret() -> tuple[dict[str, Any], dict[str, str]]:
    """Make a new secret for an origin; the last one signs beside it for a day."""
    owner = auth.submitter().owner
    given = schemas.load(Origin(), bodies.read_object())["origin"]
    fault = {"pointer": "#/origin", "detail": "This is not an http or https URL."}
    origin = _origin(given, Problem("invalid-payload", errors=[fault]))
    receiver_acts.rotate(owner, origin, "/v1/callback-secrets")
    return {"origin": origin} | _secrets(owner, origin), _PRIVATE


# Deliveries


@blueprint.get("/v1/jobs/<id:job_id>/deliveries")
def list_job_deliveries(job_id: int) -> dict[str, Any]:
    """What was sent about a job, with every attempt."""
    known()
    find(job_id)
    return {"deliveries": _shown(log.of_job(site().db.read(), job_id))}


@blueprint.get("/v1/deliveries/<id:delivery_id>")
def get_delivery(delivery_id: int) -> dict[str, Any]:
    """One delivery with every attempt."""
    known()
    return _shown([_delivery(delivery_id)])[0]


@blueprint.post("/v1/deliveries/<id:delivery_id>:redeliver")
def redeliver(delivery_id: int) -> tuple[dict[str, Any], int]:
    """Send it (again) now: same id and body, new signature, and the whole schedule ahead."""
    row = _delivery(delivery_id)
    auth.steering(row.owner)
    if row.endpoint_id is not None:
        _must_be_enabled(receivers.get(site().db.read(), row.endpoint_id))
    sent = receiver_acts.redeliver(row)
    if sent is None:
        raise not_found()
    return _shown([sent])[0], 202


@blueprint.post("/v1/deliveries:redeliver")
def redeliver_failed() -> tuple[dict[str, Any], int]:
    """Send again all of the caller's deliveries that failed since a time; everybody's for an admin."""
    found = auth.submitter()
    since = schemas.load(Since(), bodies.read_object())["since"]
    return {"redelivered": receiver_acts.redeliver_failed(since, found.scope)}, 202


# What the views share


def _catalogue() -> list[catalogue.EventType]:
    return catalogue.event_types(declared.collection for declared in site().registry if declared.collection)


def _endpoint(endpoint_id: int) -> Row:
    row = receivers.get(site().db.read(), endpoint_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    return row


def _own_endpoint(endpoint_id: int) -> Row:
    row = _endpoint(endpoint_id)
    auth.steering(row.owner)
    return row


def _delivery(delivery_id: int) -> Row:
    row = log.get(site().db.read(), delivery_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    return row


def _must_be_enabled(endpoint: Row | None) -> None:
    if endpoint is None:
        raise Problem("endpoint-disabled", "The endpoint was deleted.")
    if endpoint.disabled_at:
        raise Problem("endpoint-disabled", endpoint.disabled_reason)


def _secrets(owner: str, receiver: str) -> dict[str, Any]:
    return {"secrets": receivers.render_secrets(receivers.secrets_of(site().db.read(), owner, receiver))}


def _origin(text: str, fault: Problem) -> str:
    try:
        return receivers.of_callback(parse_url(text))
    except BadTarget:
        raise fault from None


def _shown(rows: list[Row]) -> list[dict[str, Any]]:
    return log.render(site().db.read(), rows, for_admin=auth.caller().role == Role.ADMIN)
