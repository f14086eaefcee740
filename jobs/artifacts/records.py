"""The rows of artifacts. A row is written after the bytes are in the store, so an artifact appears whole or not at all."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from jobs import clock
from jobs.artifacts import links
from jobs.db import Reader, Row, Transaction
from jobs.settings import Settings

_LIVE = "state = 'whole' AND (expires_at IS NULL OR expires_at > :now)"


@dataclass(frozen=True)
class New:
    """What is known of an artifact before it has an id. `size` in bytes; `entry` is the file of a folder to link to."""

    owner: str
    kind: str                    # file, folder, upload
    name: str
    media_type: str
    size: int
    key: str
    sha256: str | None = None
    job_id: int | None = None
    attempt: int | None = None
    expires_at: str | None = None
    entry: str = ""


def record(tx: Transaction, settings: Settings, new: New) -> Row | None:
    """Store the row and mint its link, once. None when it belongs to an attempt that is no longer running."""
    if new.job_id is not None and not tx.value(
            "SELECT 1 FROM jobs WHERE id = :id AND status = 'running' AND attempt = :attempt",
            id=new.job_id, attempt=new.attempt):
        return None
    artifact_id = tx.insert(
        """INSERT INTO artifacts (owner, kind, job_id, attempt, name, media_type, size, sha256, key, state, created_at, expires_at,
                                  unused_until)
           VALUES (:owner, :kind, :job_id, :attempt, :name, :media_type, :size, :sha256, :key, 'whole', :now, :expires_at,
                   :expires_at)
           RETURNING id""",
        owner=new.owner, kind=new.kind, job_id=new.job_id, attempt=new.attempt, name=new.name, media_type=new.media_type,
        size=new.size, sha256=new.sha256, key=new.key, now=tx.now, expires_at=new.expires_at)
    expires_at = clock.after(settings.link_lifetime)
    link = links.url(settings, artifact_id, new.entry if new.kind == "folder" else new.name, expires_at)
    return tx.one("UPDATE artifacts SET link = :link, link_expires_at = :expires_at WHERE id = :id RETURNING *",
                  id=artifact_id, link=link, expires_at=expires_at)


def get(reader: Reader, artifact_id: int) -> Row | None:
    """An artifact that can be read now."""
    return reader.one(f"SELECT * FROM artifacts WHERE id = :id AND {_LIVE}", id=artifact_id, now=clock.wire(clock.now()))


def of_job(reader: Reader, job_id: int) -> list[Row]:
    """What a job has left, oldest first."""
    return reader.all(f"SELECT * FROM artifacts WHERE job_id = :job_id AND {_LIVE} ORDER BY id",
                      job_id=job_id, now=clock.wire(clock.now()))


def of_resource(reader: Reader, resource_id: int) -> list[Row]:
    """What belongs to a resource, newest first: a later job's files hide those of an earlier one."""
    return reader.all(f"SELECT * FROM artifacts WHERE resource_id = :resource_id AND {_LIVE} ORDER BY id DESC",
                      resource_id=resource_id, now=clock.wire(clock.now()))


def readable_by_job(reader: Reader, artifact_id: int, job: Row) -> Row | None:
    """An artifact that a job may read: its owner's, or one that it was accepted with as an input."""
    row = get(reader, artifact_id)
    return row if row and (row.owner == job.owner or _is_input(reader, artifact_id, job.id)) else None


def _is_input(reader: Reader, artifact_id: int, job_id: int) -> bool:
    """Whether the job was accepted with this artifact as an input, and may therefore read it."""
    return bool(reader.value("SELECT 1 FROM artifact_uses WHERE artifact_id = :artifact_id AND job_id = :job_id",
                             artifact_id=artifact_id, job_id=job_id))


def withdraw(tx: Transaction, artifact_id: int) -> bool:
    """Take an upload away; the sweep deletes its bytes and its row. False while an active job uses it."""
    used = tx.value("""SELECT 1 FROM artifact_uses JOIN jobs ON jobs.id = artifact_uses.job_id
                       WHERE artifact_uses.artifact_id = :id AND jobs.finished_at IS NULL""", id=artifact_id)
    if not used:
        tx.run("UPDATE artifacts SET state = 'doomed' WHERE id = :id AND kind = 'upload' AND state = 'whole'", id=artifact_id)
    return not used


def content_path(row: Row, path: str = "") -> str:
    """Where the bytes are read, or one file of a folder."""
    whole = f"/v1/artifacts/{row.id}/content"
    return f"{whole}/{quote(path)}" if row.kind == "folder" else whole


def render(row: Row) -> dict[str, Any]:
    """The artifact as it is shown. `size` in bytes; `link` was signed when the artifact appeared."""
    return {
        "id": str(row.id), "url": content_path(row), "name": row.name, "size": row.size, "sha256": row.sha256,
        "mediaType": row.media_type, "expiresAt": row.expires_at, "kind": row.kind,
        "job": f"/v1/jobs/{row.job_id}" if row.job_id else None, "createdAt": row.created_at,
        "link": row.link, "linkExpiresAt": row.link_expires_at}
