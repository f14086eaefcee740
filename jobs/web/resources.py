"""Resources: the business objects that jobs make, their lists, their members and their files."""

import json
import re
from typing import Any

from flask import Blueprint, Response, request

from jobs.artifacts import records
from jobs.artifacts.store import BadKey
from jobs.core import access, audit, resources
from jobs.core.audit import Act
from jobs.db import Row, Transaction
from jobs.errors import Problem
from jobs.web import auth, cursors, signed
from jobs.web.downloads import send_file, send_member, show
from jobs.web.problems import not_found
from jobs.web.queries import check_known, instant, known, page_limit
from jobs.web.site import base_url, site

blueprint = Blueprint("resources", __name__)


@blueprint.get("/v1/<collection:collection>")
def list_resources(collection: str) -> Response:
    """The collection, newest first; so that a client can reconcile when the jobs have expired."""
    _check(collection)
    known("status", "createdAfter", "limit", "cursor")
    caller, limit = auth.caller(), page_limit()
    status = tuple(each for given in request.args.getlist("status") for each in given.split(","))
    check_known("status", status, resources.STATUSES)
    created_after = instant("createdAfter") if "createdAfter" in request.args else None
    scope = cursors.fingerprint([collection, caller.scope, sorted(status), created_after])
    before = cursors.read(request.args["cursor"], scope) if request.args.get("cursor") else None
    rows = resources.page(site().db.read(), collection, limit + 1, before, caller.scope, status, created_after)
    following = None
    if len(rows) > limit:
        rows = rows[:limit]
        following = cursors.next_url(base_url(), cursors.make(rows[-1].id, scope))
    name = re.sub(r"-(.)", lambda match: match[1].upper(), collection)  # article-exports: {"articleExports": […]}
    return show({name: [resources.render(row) for row in rows], "next": following},
                {"Link": f'<{following}>; rel="next"'} if following else None)


@blueprint.get("/v1/<collection:collection>/<id:resource_id>")
@auth.signable
def get_resource(collection: str, resource_id: int) -> Response:
    """The resource; while it is being made, with a link to the job that makes it."""
    known(signed.PARAMETER)
    row = _find(collection, resource_id)
    monitor = {"Link": f'<{base_url()}/v1/jobs/{row.job_id}>; rel="monitor"'} if row.status == "processing" else None
    return show(resources.render(row), monitor)


@blueprint.delete("/v1/<collection:collection>/<id:resource_id>")
def delete_resource(collection: str, resource_id: int) -> Response:
    """Remove it and what it names. Problem 409 while it is being made."""
    known()
    row = _find(collection, resource_id)
    auth.steering(row.owner)
    actor = auth.actor()

    def write(tx: Transaction) -> bool:
        deleted = resources.delete(tx, row.id)
        if deleted:
            audit.note(tx, actor, Act.DELETE_RESOURCE, resources.path(row), row.owner, job=f"/v1/jobs/{row.job_id}")
        return deleted

    if not site().db.write(write) and resources.get(site().db.read(), collection, row.id):
        raise Problem("resource-busy", f"Its job is /v1/jobs/{row.job_id}.")
    return Response(status=204)


@blueprint.get("/v1/<collection:collection>/<id:resource_id>/<path:path>")
def get_part(collection: str, resource_id: int, path: str) -> Response:
    """A member that the resource names (`playlists/720p`), else one of its files."""
    row = _find(collection, resource_id)
    left = records.of_resource(site().db.read(), row.id)
    member = _member(row, path)
    if member is not None:
        return show(member | _manifest(row, left, path))
    for artifact in left:
        if artifact.kind == "folder" and _holds(artifact, path):
            return send_member(artifact, path, inline=True)
        if artifact.kind == "file" and artifact.name == path:
            return send_file(artifact, inline=True)
    raise not_found()


def _member(row: Row, path: str) -> dict[str, Any] | None:
    """The entry called `720p` of the resource's list `playlists`."""
    listed, _, name = path.partition("/")
    entries = json.loads(row.fields).get(listed)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and name and entry.get("name") == name:
            return entry
    return None


def _manifest(row: Row, left: list[Row], path: str) -> dict[str, str]:
    playlist = f"{path}/index.m3u8"
    found = any(artifact.kind == "folder" and _holds(artifact, playlist) for artifact in left)
    return {"manifest": f"{resources.path(row)}/{playlist}"} if found else {}


def _holds(artifact: Row, path: str) -> bool:
    try:
        return site().store.size(f"{artifact.key}/{path}") >= 0
    except (FileNotFoundError, BadKey):
        return False


def _find(collection: str, resource_id: int) -> Row:
    """The resource, if this caller may see it; Problem 404, alike for foreign and unknown."""
    _check(collection)
    row = resources.get(site().db.read(), collection, resource_id)
    if row is None or not access.may_see(auth.caller(), row.owner):
        raise not_found()
    return row


def _check(collection: str) -> None:
    if site().registry.by_collection(collection) is None:
        raise not_found()
