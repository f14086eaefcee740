"""What the server offers and who may use it: job types, keys, health."""

from typing import Any

from flask import Blueprint, Response
from marshmallow import RAISE, Schema, ValidationError, fields, validate
from sqlalchemy import select

from jobs import clock
from jobs.core import access
from jobs.core.access import Role
from jobs.core.people import Key
from jobs.db import Row
from jobs.errors import Problem, StorageUnavailable
from jobs.web import auth, bodies, conditional, negotiation, schemas
from jobs.web.auth import public
from jobs.web.problems import not_found
from jobs.web.queries import known
from jobs.web.records import orm
from jobs.web.site import base_url, site

blueprint = Blueprint("administration", __name__)
blueprint.before_request(negotiation.check)
_PRIVATE = {"Cache-Control": "no-store"}


def _is_ahead(instant: str) -> None:
    if clock.seconds_until(instant) <= 0:
        raise ValidationError("This has passed.")


class NewKey(Schema):
    """A key to be made."""

    class Meta:
        unknown = RAISE

    owner = fields.Str(required=True, validate=validate.Regexp(
        access.OWNER.pattern + r"\Z", error=f"{access.OWNER_FORM}."))
    role = fields.Enum(Role, by_value=True, load_default=Role.SUBMIT)
    name = fields.Str(load_default="", validate=validate.Regexp(r"[^\0]{0,200}\Z", error="At most 200 characters."))
    expires_at = schemas.Instant(data_key="expiresAt", load_default=None, allow_none=True, validate=_is_ahead)
    sync_wait = fields.Int(data_key="syncWait", strict=True, load_default=0,
                           validate=validate.Range(0, conditional.MAX_WAIT))


@blueprint.get("/v1/keys")
def list_keys() -> tuple[dict[str, Any], dict[str, str]]:
    """All keys, without the keys themselves."""
    known()
    auth.admin()
    return {"keys": [_shown(row) for row in orm.session.scalars(select(Key).order_by(Key.id))]}, _PRIVATE


@blueprint.get("/v1/keys/<id:key_id>")
def get_key(key_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """One key, without the key itself."""
    known()
    auth.admin()
    return _shown(find_key(key_id)), _PRIVATE


@blueprint.post("/v1/keys")
def make_key() -> tuple[dict[str, Any], int, dict[str, str]]:
    """Make a key; this answer is the only one that ever shows it."""
    known()
    auth.admin()
    wanted = schemas.load(NewKey(), bodies.read_object())
    actor = auth.actor()
    token = site().db.write(lambda tx: access.make_key(tx, **wanted, by=actor))
    row = find_key(access.authenticate(site().db.read(), token).key_id)
    return _shown(row) | {"key": token}, 201, _PRIVATE | {"Location": f"{base_url()}/v1/keys/{row.id}"}


@blueprint.delete("/v1/keys/<id:key_id>")
def revoke_key(key_id: int) -> Response:
    """End a key at once, its streams within a second."""
    known()
    auth.admin()
    find_key(key_id)
    actor = auth.actor()
    site().db.write(lambda tx: access.revoke(tx, key_id, actor))
    return Response(status=204)


@blueprint.get("/livez")
@blueprint.get("/healthz", endpoint="healthz")
@public
def livez() -> tuple[dict[str, str], dict[str, str]]:
    """The process answers; nothing else is asked."""
    return {"status": "ok"}, {"Cache-Control": "no-store"}


@blueprint.get("/readyz")
@public
def readyz() -> tuple[dict[str, Any], dict[str, str]]:
    """Submissions can be taken; without Redis or workers they wait, which `degraded` tells. Problem 503 otherwise."""
    try:
        site().db.check_room()
        site().db.check()
    except StorageUnavailable as error:
        raise Problem("storage-unavailable", "The database cannot be written.", headers={"Retry-After": "5"}) from error
    return {"status": "ok", "degraded": [] if site().doorbell.works() else ["redis"]}, {"Cache-Control": "no-store"}


def find_key(key_id: int) -> Row:
    """The row of a key; Problem 404."""
    row = site().db.read().one("SELECT * FROM keys WHERE id = :id", id=key_id)
    if row is None:
        raise not_found()
    return row


def _shown(row: Row | Key) -> dict[str, Any]:
    valid = not row.revoked_at and (not row.expires_at or row.expires_at > clock.wire(clock.now()))
    return {"id": str(row.id), "owner": row.owner, "role": row.role, "name": row.name, "hint": row.hint, "valid": valid,
            "syncWait": row.sync_wait, "createdAt": row.created_at, "expiresAt": row.expires_at,
            "revokedAt": row.revoked_at, "lastUsedAt": row.last_used_at}
