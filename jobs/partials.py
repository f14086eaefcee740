"""A file that a download fills, and that a later try can go on from when it breaks off.

It is locked while it is written. Whoever goes on with it knows by that that nobody else writes to it, not even a process
that stood still for so long that it was given up, and then woke. A note beside it says which version of the source it is.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from urllib3.response import BaseHTTPResponse

_NOTE = ".note"
_SETTLED = 60       # seconds that a Last-Modified must lie back to name one version only (RFC 9110, section 8.8.2.2)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"')
_PART = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class Partial:
    """The file `path`, filled from `url`: `size` bytes of it are there, `digest` is their SHA-256 so far.

    It begins with the first of `earlier`, paths like this one, that is free and holds the beginning of the same source;
    the others that are free are removed. A context manager: after an error it leaves what a later try can go on from, if
    it `keeps` that at all, else nothing.
    """

    def __init__(self, path: Path, url: str, keeps: bool = False, earlier: Iterable[Path] = ()):
        self.path, self._url, self._keeps = path, url, keeps
        self.version, taken = "", None
        for each in earlier:
            file = _lock(each)
            if file and keeps and not taken and (version := _version(each, file, url)):
                self.version, taken = version, file
                self._write_note()
                each.rename(path)
                if each != path:
                    _note(each).unlink()
            elif file:
                _remove(each)
                file.close()
        if not taken:
            path.unlink(missing_ok=True)
            taken = path.open("x+b")
            fcntl.flock(taken, fcntl.LOCK_EX)
        self._file = taken
        self.digest = hashlib.file_digest(taken, "sha256")
        self.size = self.begun_at = taken.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            _note(self.path).unlink(missing_ok=True)
        elif not self.version:
            _remove(self.path)
        self._file.close()      # and with that unlocked

    @property
    def headers(self) -> dict[str, str]:
        """What asks for the rest (RFC 9110, sections 13.1.5 and 14.2)."""
        return {"Range": f"bytes={self.size}-", "If-Range": self.version} if self.size else {}

    def joins(self, response: BaseHTTPResponse) -> int | None:
        """The size of the whole file, if the source sends what comes next in it; else None.

        It must be said to be of the same version: some servers heed Range and ignore If-Range.
        """
        part = _PART.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != 206 or not self.size or not part:
            return None
        begin, last, total = map(int, part.groups())
        has_etag = self.version.startswith('"')
        # A Last-Modified may be left out of an answer to If-Range, an ETag may not (RFC 9110, section 15.3.7).
        given = response.headers.get("ETag" if has_etag else "Last-Modified", "" if has_etag else self.version)
        return total if begin == self.size <= last < total and given == self.version else None

    def begin(self, version: str) -> None:
        """All of it comes; `version` is a validator that a later try can rely on, or ""."""
        self.drop()
        if version and self._keeps:
            self.version = version
            self._write_note()

    def write(self, data: bytes) -> None:
        """The next bytes."""
        self._file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def drop(self) -> None:
        """Forget what came."""
        _note(self.path).unlink(missing_ok=True)
        self._file.seek(0)
        self._file.truncate()
        self.digest, self.size, self.begun_at, self.version = hashlib.sha256(), 0, 0, ""

    def _write_note(self) -> None:
        _note(self.path).write_text(json.dumps({"url": self._url, "version": self.version}), "utf-8")


def waiting(folder: Path) -> list[Path]:
    """What downloads into this folder have left in it, the latest first."""
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in files if path.suffix != _NOTE), key=_written, reverse=True)


def clear(folder: Path) -> None:
    """Remove what nobody writes to, and the folder when that was all."""
    for path in waiting(folder):
        if file := _lock(path):
            _remove(path)
            file.close()
    discard(folder)


def discard(folder: Path) -> None:
    """Remove a folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def version_of(response: BaseHTTPResponse) -> str:
    """A strong validator of what is sent, or an empty text (RFC 9110, section 8.8)."""
    etag, modified = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
    if etag:
        return etag if _STRONG_ETAG.fullmatch(etag) else ""
    try:
        age = parsedate_to_datetime(response.headers.get("Date", "")) - parsedate_to_datetime(modified)
    except (TypeError, ValueError):
        return ""
    return modified if age.total_seconds() >= _SETTLED else ""


def _lock(path: Path) -> BinaryIO | None:
    """The file, open and locked; None if another process writes to it or has taken it."""
    try:
        file = path.open("r+b")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except OSError:
        pass
    file.close()
    return None


def _version(path: Path, file: BinaryIO, url: str) -> str:
    """Of which version of this source the file holds the beginning; an empty text if it holds nothing of use."""
    try:
        noted = json.loads(_note(path).read_text("utf-8"))
        return noted["version"] if noted["url"] == url and os.fstat(file.fileno()).st_size else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _note(path).unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(path.name + _NOTE)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0      # taken in the meantime
