"""What a job left behind, as its page offers it: files, and a video that can be watched at once."""

import json
from dataclasses import dataclass
from typing import Any

from jobs.artifacts import records
from jobs.core import resources
from jobs.db import Reader, Row

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
_SMALL = 5_000_000  # bytes of a picture that is shown without being asked for


@dataclass(frozen=True)
class File:
    """An artifact. `href` is a path below the server's address; None for a folder, which has no single content."""

    name: str
    media_type: str
    size: int
    href: str | None
    picture: bool


@dataclass(frozen=True)
class Video:
    """A video of several renditions; every address is a path below the server's address."""

    manifest: str
    poster: str | None
    renditions: list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """`address` is the business resource's path and `status` its state, both None where there is none."""

    files: list[File]
    video: Video | None
    address: str | None
    status: str | None
    warnings: list[str]


def of(reader: Reader, row: Row, artifacts: list[Row]) -> Outcome:
    """What this job left and still keeps."""
    resource = _resource(reader, row)
    fields = json.loads(resource.fields) if resource else {}
    address = resources.path(resource) if resource else None
    ready = resource is not None and resource.status == "ready"
    warnings = fields.get("warnings") if ready else None
    return Outcome(
        files=[_file(one) for one in artifacts if one.kind == "file"],
        video=_video(address, fields) if ready else None, address=address, status=resource.status if resource else None,
        warnings=[str(one) for one in warnings] if isinstance(warnings, list) else [])


def _resource(reader: Reader, row: Row) -> Row | None:
    """The job's resource, unless a later job makes it now."""
    if row.resource_id is None:
        return None
    return reader.one("SELECT * FROM resources WHERE id = :id AND job_id = :job_id", id=row.resource_id, job_id=row.id)


def _video(address: str, fields: dict[str, Any]) -> Video | None:
    """A resource with playlists can be watched."""
    playlists = fields.get("playlists")
    if not isinstance(playlists, list) or not playlists or not all(isinstance(one, dict) for one in playlists):
        return None
    poster = fields.get("poster")
    safe = isinstance(poster, str) and poster.startswith("/v1/")
    return Video(f"{address}/index.m3u8", poster if safe else None, playlists)


def _file(row: Row) -> File:
    picture = row.media_type in _PICTURES and row.size <= _SMALL
    return File(row.name, row.media_type, row.size, records.content_path(row), picture)
