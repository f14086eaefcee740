"""Artifacts in an object store, reached by fsspec: `s3://bucket/prefix` with requirements-s3.txt.

An object appears when it is complete. A folder's objects appear one by one, but nobody knows of them before the artifact's
row is written. fsspec's clients do not survive a fork, so each process makes its own.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from jobs.artifacts.store import BadKey, Leaf, NotPlain, check_key, plain_files, storage_errors
from jobs.errors import StorageUnavailable
from jobs.settings import SettingsError


class RemoteStore:
    """A bucket, or a prefix in one."""

    def __init__(self, url: str, scratch: Path):
        self._url = url
        self.scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connected: tuple[Any, str] | None = None
        self._pid = 0
        _check(url)

    def put_file(self, local: Path, key: str) -> None:
        if local.is_symlink() or not local.is_file():
            raise NotPlain(f"{local.name} is not a file")
        with self._there(key) as (files, path):
            if files.exists(path):
                raise BadKey(f"the key is taken: {key}")
            files.put_file(str(local), path)
        local.unlink()

    def put_folder(self, local: Path, key: str) -> None:
        inside = [name for name, _ in plain_files(local)]
        for name in inside:
            check_key(f"{key}/{name}")
        with self._there(key) as (files, path):
            if files.exists(path):
                raise BadKey(f"the key is taken: {key}")
            files.put([str(local / name) for name in inside], [f"{path}/{name}" for name in inside])
        shutil.rmtree(local)

    def open(self, key: str, offset: int = 0) -> BinaryIO:
        size = self.size(key)
        with self._there(key) as (files, path):
            file = files.open(path, "rb", block_size=1 << 20, cache_type="readahead", size=size)
            file.seek(offset)
            return file

    def size(self, key: str) -> int:
        with self._there(key) as (files, path):
            found = files.info(path)
        if found["type"] != "file":
            raise FileNotFoundError(key)
        return found["size"]

    def files(self, key: str) -> list[tuple[str, int]]:
        with self._there(key) as (files, path):
            found = files.find(path, detail=True)
        if not found or path in found:
            raise FileNotFoundError(key)
        return sorted((name[len(path) + 1:], info["size"]) for name, info in found.items())

    def delete(self, key: str) -> None:
        with self._there(key) as (files, path):
            found = files.find(path)
            if found:
                files.rm(found)

    def local_path(self, key: str) -> Path | None:
        return None

    def fetch(self, key: str, target: Path) -> None:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        with self._there(key) as (files, path):
            try:
                files.get_file(path, str(part))
                part.rename(target)
            finally:
                part.unlink(missing_ok=True)

    def leaves(self) -> Iterator[Leaf]:
        with _errors():
            files, root = self._client()
            for group in self._below(files, self._below(files, iter([root]))):
                for leaf in files.ls(group, detail=False):
                    touched = max(info["LastModified"] for info in files.find(leaf, detail=True).values())
                    yield Leaf(leaf[len(root) + 1:], (datetime.now(UTC) - touched).total_seconds())

    def _below(self, files: Any, folders: Iterator[str]) -> Iterator[str]:
        for folder in folders:
            yield from files.ls(folder, detail=False) if files.exists(folder) else ()

    @contextmanager
    def _there(self, key: str) -> Iterator[tuple[Any, str]]:
        """This process's client and the object's full name."""
        check_key(key)
        files, root = self._client()
        with _errors():
            yield files, f"{root}/{key}"

    def _client(self) -> tuple[Any, str]:
        if self._pid != os.getpid():
            self._connected, self._pid = _connect(self._url), os.getpid()
        return self._connected


def _check(url: str) -> None:
    """SettingsError when nothing here can reach such a URL; connects to nothing yet."""
    try:
        import fsspec

        fsspec.get_filesystem_class(url.partition("://")[0])
    except (ImportError, ValueError) as error:
        raise SettingsError(f"ACCEPTED_ARTIFACTS_URL={url!r}: {error}. For s3://…: ./run install s3") from None


def _connect(url: str) -> tuple[Any, str]:
    """A client of this process, and the prefix. Listings are not cached: other processes write, too."""
    from fsspec.core import url_to_fs

    files, root = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
    return files, root.rstrip("/")


@contextmanager
def _errors() -> Iterator[None]:
    """What a storage service cannot do now is StorageUnavailable."""
    try:
        with storage_errors():
            yield
    except (FileNotFoundError, StorageUnavailable):
        raise
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.startswith(("botocore", "aiobotocore", "aiohttp")):
            raise StorageUnavailable(str(error)) from error
        raise
