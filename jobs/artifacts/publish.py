"""From a local file or folder to an artifact: hashed, moved into the store, then recorded.

Whatever happens between the two steps leaves bytes without a row; the sweep removes them.
"""

import mimetypes
from pathlib import Path

from jobs.artifacts import links, names, records
from jobs.artifacts.records import New
from jobs.artifacts.store import Store, digest, new_key, plain_files
from jobs.db import Database, Row
from jobs.settings import Settings

_ENTRIES = ("index.m3u8", "index.html", "index.json")
OWN_MEDIA_TYPES = {
    ".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".m4s": "video/iso.segment", ".mp4": "video/mp4",
    ".vtt": "text/vtt", ".csv": "text/csv", ".json": "application/json", ".md": "text/markdown", ".webp": "image/webp"}


def media_type_of(name: str) -> str:
    """The media type that a file's ending tells."""
    own = OWN_MEDIA_TYPES.get(Path(name).suffix.lower())
    return own or mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"


def file(db: Database, store: Store, settings: Settings, local: Path, *, owner: str, job_id: int, attempt: int, name: str,
         media_type: str | None = None, sha256: str | None = None) -> Row | None:
    """Make a local file an artifact of a running attempt. None: the attempt is lost, and the file is gone.

    `sha256` in hex, if the caller has it from writing the file.
    """
    size, sha256 = (local.stat().st_size, sha256) if sha256 else digest(local)
    name = names.clean(name)
    key = new_key("jobs", job_id, name)
    store.put_file(local, key)
    return _record(db, store, settings, New(
        owner=owner, kind="file", name=name, media_type=media_type or media_type_of(name), size=size, sha256=sha256, key=key,
        job_id=job_id, attempt=attempt))


def folder(db: Database, store: Store, settings: Settings, local: Path, *, owner: str, job_id: int, attempt: int,
           name: str) -> Row | None:
    """Make a local folder one artifact. NotPlain when it holds a symlink; None: the attempt is lost."""
    inside = plain_files(local)
    paths = {path for path, _ in inside}
    name = names.clean(name, "folder")
    key = new_key("jobs", job_id, name)
    store.put_folder(local, key)
    return _record(db, store, settings, New(
        owner=owner, kind="folder", name=name, media_type="application/json", size=sum(size for _, size in inside), key=key,
        job_id=job_id, attempt=attempt, entry=next((entry for entry in _ENTRIES if entry in paths), "")))


def upload(db: Database, store: Store, settings: Settings, local: Path, *, owner: str, name: str, media_type: str,
           size: int, sha256: str, expires_at: str) -> Row:
    """Make a received file (hashed while it came) an artifact of its owner."""
    key = new_key("uploads", expires_at[:10], name)
    store.put_file(local, key)
    return _record(db, store, settings, New(owner=owner, kind="upload", name=name, media_type=media_type, size=size,
                                            sha256=sha256, key=key, expires_at=expires_at))


def _record(db: Database, store: Store, settings: Settings, new: New) -> Row | None:
    links.secret(settings)  # made, if need be, before the transaction
    row = db.write(lambda tx: records.record(tx, settings, new))  # when this raises, the commit may yet have happened
    if row is None:
        store.delete(new.key)
    return row
