"""Where the bytes of artifacts are kept: a local folder, or whatever fsspec reaches (`remote.py`).

A key names one artifact: `area/group/leaf`, three segments, so that what has no row can be found by listing. A file of a
folder artifact is `area/group/leaf/path`. Keys are never used twice and what a key holds never changes.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

from jobs.errors import StorageFull, StorageUnavailable
from jobs.settings import Settings

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ODD = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


class BadKey(ValueError):
    """The key would lead out of the store, or cannot be a key."""


class NotPlain(ValueError):
    """What should be stored holds something that is neither a file nor a folder: a symlink, a socket, a device."""


@dataclass(frozen=True)
class Leaf:
    """One stored artifact, as a listing finds it; `age` in seconds by the storage's own clock."""

    key: str
    age: float


class Store(Protocol):
    """What every store does. StorageFull and StorageUnavailable from all that write; FileNotFoundError from all that read."""

    scratch: Path
    """A local folder for what is still being written; in a local store a move from here is a mere rename."""

    def put_file(self, local: Path, key: str) -> None:
        """Move a local file into the store. It appears whole, or not at all."""

    def put_folder(self, local: Path, key: str) -> None:
        """Move a local folder into the store."""

    def open(self, key: str, offset: int = 0) -> BinaryIO:
        """Open a stored file, `offset` bytes from its start."""

    def size(self, key: str) -> int:
        """Bytes of a stored file."""

    def files(self, key: str) -> list[tuple[str, int]]:
        """(path inside, bytes) of each file of a stored folder, sorted."""

    def delete(self, key: str) -> None:
        """Remove a file or folder; one that is not there is no error."""

    def local_path(self, key: str) -> Path | None:
        """Where a stored file lies on this machine, or None when it does not."""

    def fetch(self, key: str, target: Path) -> None:
        """Copy a stored file to a local path."""

    def leaves(self) -> Iterator[Leaf]:
        """Every artifact that lies in the store, with or without a row."""


def open_store(settings: Settings) -> Store:
    """The store that the settings name."""
    if settings.artifacts_url:
        return _remote(settings.artifacts_url, settings.data_dir / "tmp")
    return LocalStore(settings.data_dir / "artifacts")


@lru_cache
def _remote(url: str, scratch: Path) -> Store:
    """One for the whole process: a client takes half a second to make."""
    from jobs.artifacts.remote import RemoteStore  # needs fsspec, an optional extra

    return RemoteStore(url, scratch)


def new_key(area: str, group: str | int, name: str) -> str:
    """A key that was never used, readable for whoever looks into the store."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-60:].lstrip(".")
    return f"{area}/{group}/{secrets.token_hex(6)}-{readable}"


def check_key(key: str) -> str:
    """The key itself. BadKey when a segment is empty, dotted or odd, or the whole is absolute or too long."""
    segments = key.split("/")
    if (_ODD.search(key) or len(key.encode()) > 1000 or len(segments) < 3 or key.startswith(".")
            or any(part in ("", ".", "..") or len(part.encode()) > 255 for part in segments)):
        raise BadKey(f"not a key: {key[:200]!r}")
    return key


def digest(local: Path) -> tuple[int, str]:
    """(bytes, SHA-256 in hex) of a local file."""
    with local.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def plain_files(folder: Path) -> list[tuple[str, int]]:
    """(path inside, bytes) of each file below a local folder. NotPlain when there is anything but files and folders."""
    found = []
    for parent, folders, names in os.walk(folder):
        for name in folders + names:
            entry = Path(parent, name)
            status = entry.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append((entry.relative_to(folder).as_posix(), status.st_size))
            elif not stat.S_ISDIR(status.st_mode):
                raise NotPlain(f"{entry.name} is neither a file nor a folder")
    return sorted(found)


class LocalStore:
    """A folder on a local disk. Every file is on the disk before it gets its name."""

    def __init__(self, root: Path):
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root = root.resolve()
        self.scratch = self._root / ".tmp"
        self.scratch.mkdir(exist_ok=True, mode=0o700)

    def put_file(self, local: Path, key: str) -> None:
        target = self._root / check_key(key)
        if not stat.S_ISREG(local.lstat().st_mode):
            raise NotPlain(f"{local.name} is not a file")
        with storage_errors():
            self._publish(self._on_this_disk(local), target)

    def put_folder(self, local: Path, key: str) -> None:
        target = self._root / check_key(key)
        inside = plain_files(local)
        for path, _ in inside:
            check_key(f"{key}/{path}")
        with storage_errors():
            local = self._on_this_disk(local)
            for path, _ in inside:
                _sync(local / path)
            self._publish(local, target)

    def open(self, key: str, offset: int = 0) -> BinaryIO:
        file = os.fdopen(os.open(self._existing(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
        file.seek(offset)
        return file

    def size(self, key: str) -> int:
        return self._existing(key).lstat().st_size

    def files(self, key: str) -> list[tuple[str, int]]:
        folder = self._inside(key)
        if not folder.is_dir():
            raise FileNotFoundError(key)
        return plain_files(folder)

    def delete(self, key: str) -> None:
        path = self._root / check_key(key)
        with storage_errors():
            if path.is_dir() and not path.is_symlink():
                vanishing = self.scratch / secrets.token_hex(8)
                path.rename(vanishing)  # readers see the whole folder or none of it
                shutil.rmtree(vanishing, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            for parent in (path.parent, path.parent.parent):
                try:
                    parent.rmdir()
                except OSError:
                    break  # others live there

    def local_path(self, key: str) -> Path | None:
        return self._existing(key)

    def fetch(self, key: str, target: Path) -> None:
        with storage_errors(), self.open(key) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)

    def leaves(self) -> Iterator[Leaf]:
        for leaf in self._root.glob("[!.]*/*/*"):
            try:
                yield Leaf(leaf.relative_to(self._root).as_posix(), time.time() - leaf.lstat().st_mtime)
            except FileNotFoundError:
                pass  # deleted meanwhile

    def _existing(self, key: str) -> Path:
        path = self._inside(key)
        if not path.is_file():
            raise FileNotFoundError(key)
        return path

    def _inside(self, key: str) -> Path:
        """The path of a key. BadKey when a symlink lies anywhere on the way: none is ever made by the store."""
        path = self._root / check_key(key)
        if path.resolve() != path:
            raise BadKey(f"leads elsewhere: {key[:200]!r}")
        return path

    def _on_this_disk(self, local: Path) -> Path:
        """`local` itself, or a copy in the scratch folder when it lies on another file system."""
        if local.lstat().st_dev == self.scratch.stat().st_dev:
            return local
        copy = self.scratch / secrets.token_hex(8)
        try:
            if local.is_dir():
                shutil.copytree(local, copy)
                shutil.rmtree(local)
            else:
                shutil.copyfile(local, copy)
                local.unlink()
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            copy.unlink(missing_ok=True)
            raise
        return copy

    def _publish(self, local: Path, target: Path) -> None:
        os.utime(local)  # an old file that is published now is young for those who look for orphans
        _sync(local)
        for _ in range(5):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.path.lexists(target):
                raise BadKey(f"the key is taken: {target.name}")
            try:
                local.rename(target)
                break
            except FileNotFoundError:
                continue  # the group's folder was empty and was removed between the two calls
        else:
            raise FileNotFoundError(target)
        for parent in (target.parent, target.parent.parent, self._root):
            _sync(parent)


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn the disk's refusals into StorageFull and StorageUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StorageFull(str(error)) from error
        if error.errno in (errno.EROFS, errno.EIO, errno.ESTALE):
            raise StorageUnavailable(str(error)) from error
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
