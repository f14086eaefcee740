"""Artifacts: what they are, their bytes, and links that open them without a key."""

import hashlib
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request

from jobs import clock
from jobs.artifacts import links, publish, records
from jobs.artifacts.store import BadKey, NotPlain
from jobs.core import access, audit
from jobs.core.audit import Act
from jobs.db import Row, Transaction
from jobs.errors import Problem
from jobs.web import auth, conditional, negotiation
from jobs.web.api import find
from jobs.web.problems import not_found
from jobs.web.queries import known
from jobs.web.sending import send
from jobs.web.site import base_url, site
from jobs.web.submissions import compact

blueprint = Blueprint("downloads", __name__)


@blueprint.get("/v1/artifacts/<id:artifact_id>")
def get_artifact(artifact_id: int) -> Response:
    """What the artifact is."""
    known()
    return show(records.render(_find(artifact_id)))


@blueprint.get("/v1/jobs/<id:job_id>/artifacts")
def get_artifacts(job_id: int) -> Response:
    """What the job has left."""
    known()
    find(job_id)
    return show({"artifacts": [records.render(row) for row in records.of_job(site().db.read(), job_id)]})


@blueprint.get("/v1/artifacts/<id:artifact_id>/content")
@blueprint.get("/v1/artifacts/<id:artifact_id>/content/<path:path>")
def get_content(artifact_id: int, path: str = "") -> Response:
    """The bytes, or one file of a folder; of a folder itself the list of its files."""
    return _content(_find(artifact_id), path)


@blueprint.get("/v1/artifacts/<id:artifact_id>/signed/<token>")
@blueprint.get("/v1/artifacts/<id:artifact_id>/signed/<token>/<path:path>")
@auth.public
def get_signed(artifact_id: int, token: str, path: str = "") -> Response:
    """The same for whoever holds a link; a key that comes along is not looked at.

    The path of a folder's file counts; a single file answers under any name. 404 for a token that is not ours or another
    artifact's; 410 for one that has expired, since only its holder can learn that.
    """
    expires_at = links.verify(links.secret(site().settings), artifact_id, token)
    row = records.get(site().db.read(), artifact_id) if expires_at else None
    if row is None:
        raise not_found()
    if clock.seconds_until(expires_at) <= 0:
        raise Problem("link-expired")
    return _content(row, path if row.kind == "folder" else "")


@blueprint.post("/v1/artifacts/<id:artifact_id>:sign")
def sign(artifact_id: int) -> Response:
    """A fresh link; those given out before keep working until they expire."""
    known()
    row = _find(artifact_id)
    auth.steering(row.owner)
    expires_at = clock.after(site().settings.link_lifetime)
    link = links.url(site().settings, row.id, links.path_of(row.link) if row.link else row.name, expires_at, base_url())
    response = Response(compact({"link": link, "linkExpiresAt": expires_at}), 201, content_type="application/json")
    response.headers.update({"Location": link, "Cache-Control": "no-store"})
    return response


@blueprint.delete("/v1/artifacts/<id:artifact_id>")
def delete(artifact_id: int) -> Response:
    """Take an upload back. Problem 409 while an active job uses it, or when a job has left the artifact."""
    known()
    row = _find(artifact_id)
    auth.steering(row.owner)
    if row.kind != "upload":
        raise Problem("artifact-in-use", "A job has left it; it goes with the job, or with its resource.")
    actor = auth.actor()

    def write(tx: Transaction) -> bool:
        withdrawn = records.withdraw(tx, row.id)
        if withdrawn:
            audit.note(tx, actor, Act.WITHDRAW_FILE, f"/v1/artifacts/{row.id}", row.owner, name=row.name)
        return withdrawn

    if not site().db.write(write):
        raise Problem("artifact-in-use", "A job that has not ended yet uses it.")
    return Response(status=204)


def show(members: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """200 with JSON and a strong ETag of its bytes, or 304. Problem 406 when the client takes no JSON."""
    negotiation.demand(negotiation.JSON)
    body = compact(members).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    fresh = conditional.matches(request.headers.get("If-None-Match"), tag)
    response = Response(status=304) if fresh else Response(body, content_type="application/json")
    response.headers.update({"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"})
    response.headers.update(headers or {})
    return response


def send_member(row: Row, path: str, inline: bool = False) -> Response:
    """One file of a folder artifact. Problem 404."""
    return send(site().store, f"{row.key}/{path}", name=path.rpartition("/")[2], media_type=publish.media_type_of(path),
                created_at=row.created_at, inline=inline)


def send_file(row: Row, inline: bool = False) -> Response:
    """A single-file artifact."""
    return send(site().store, row.key, name=row.name, media_type=row.media_type, created_at=row.created_at, inline=inline)


def _content(row: Row, path: str) -> Response:
    if row.kind != "folder":
        if path:
            raise not_found()
        return send_file(row)
    return send_member(row, path) if path else _listing(row)


def _listing(row: Row) -> Response:
    try:
        files = site().store.files(row.key)
    except (FileNotFoundError, BadKey, NotPlain):
        raise not_found() from None
    return show({"files": [{"path": path, "size": size, "mediaType": publish.media_type_of(path)} for path, size in files]})


def _find(artifact_id: int) -> Row:
    """The artifact, if this caller may see it; Problem 404, alike for foreign and unknown."""
    row = records.get(site().db.read(), artifact_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    return row
