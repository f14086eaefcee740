"""What a job leaves: files and folders that appear whole or not at all.

Each is written into the attempt's temporary folder, hashed on the way, moved into the store, and only then recorded.
"""

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING

from jobs.artifacts import publish
from jobs.artifacts.store import open_store
from jobs.work.alarm import AttemptLost

if TYPE_CHECKING:
    from jobs.work.context import Context


@contextmanager
def file(job: "Context", name: str, media_type: str | None) -> Iterator[IO]:
    """See `Context.artifact`."""
    media_type = media_type or publish.media_type_of(name)
    path = job.scratch(_safe(name))
    raw = _Hashed(path)
    out: IO = io.BufferedWriter(raw, 1 << 16)
    if media_type.startswith("text/"):
        out = io.TextIOWrapper(out, encoding="utf-8", newline="")
    try:
        yield out
    finally:
        out.close()
    with job.whole():
        _publish(job, out, path, name, media_type=media_type, sha256=raw.digest(path))


def whole_file(job: "Context", path: Path, name: str, media_type: str | None, sha256: str | None) -> SimpleNamespace:
    """See `Context.artifact_of`."""
    if sha256 is None:
        with path.open("rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
    out = SimpleNamespace()
    with job.whole():
        _publish(job, out, path, name, media_type=media_type or publish.media_type_of(name), sha256=sha256)
    return out


@contextmanager
def folder(job: "Context", name: str) -> Iterator["Folder"]:
    """See `Context.artifact_folder`."""
    path = Folder(job.scratch(_safe(name)))
    path.mkdir()
    yield path
    with job.whole():
        _publish(job, path, path, name)


class Folder(type(Path())):
    """A Path that can be told what it was recorded as."""


def _publish(job: "Context", out: IO | Folder, path: Path, name: str, **known: str) -> None:
    """Hand it to the store and record it, as long as this attempt holds the lease; else AttemptLost."""
    put = publish.folder if path.is_dir() else publish.file
    row = put(job._db, open_store(job.settings), job.settings, Path(path), owner=job.owner, job_id=int(job.id),
              attempt=job.attempt, name=name, **known)
    if row is None:
        raise AttemptLost
    out.id, out.href = str(row.id), f"/v1/artifacts/{row.id}"
    out.url, out.expires_at = row.link, row.link_expires_at


def _safe(name: str) -> str:
    """A file name of plain characters for the store; the artifact itself keeps the name that it was given."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError(f"an artifact cannot be called {name!r}")
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".")[-100:] or "file"


class _Hashed(io.FileIO):
    """A file that computes its SHA-256 while it is written; one that is not written straight through is read again."""

    def __init__(self, path: Path):
        super().__init__(path, "w")
        self._sha = hashlib.sha256()
        self._straight = True

    def write(self, data) -> int:
        number = super().write(data)
        if self._straight:
            self._sha.update(memoryview(data)[:number])
        return number

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before = self.tell()
        after = super().seek(offset, whence)
        self._straight = self._straight and before == after
        return after

    def truncate(self, size: int | None = None) -> int:
        self._straight = False
        return super().truncate(size)

    def digest(self, path: Path) -> str:
        """Hex SHA-256 of the whole file."""
        if self._straight:
            return self._sha.hexdigest()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
