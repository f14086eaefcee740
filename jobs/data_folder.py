"""The data folder: private, on a local disk, and used by one server at a time."""

import fcntl
import json
import os
import re
import subprocess
from pathlib import Path
from typing import IO, Self

LOCK = "server.lock"
_REMOTE = re.compile(r"nfs\d?|cifs|smb\w*|9p|drvfs|afs|afpfs|ceph|lustre|glusterfs|gpfs|beegfs|ncpfs|webdav|vboxsf|"
                     r"prl_fs|fuse\.(sshfs|s3fs|rclone|glusterfs|ceph|gcsfuse|davfs|curlftpfs|smbnetfs)")


class Unusable(Exception):
    """The data folder cannot be used."""


class DataFolder:
    """The folder while this process holds it; the lock goes with the process, however that ends."""

    def __init__(self, path: Path, lock: IO[str]):
        self.path = path
        self._lock = lock

    @classmethod
    def take(cls, path: Path) -> Self:
        """Make the folder (mode 0700) if need be and lock it. Unusable if another server holds it."""
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
            lock = open(path / LOCK, "a+", opener=lambda name, flags: os.open(name, flags, 0o600))
        except OSError as error:
            raise Unusable(f"The data folder {path} cannot be used: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)     # lockf would go when anyone here closes the file
        except OSError as error:
            lock.close()
            holder = tenant(path) or {}
            raise Unusable(f"Another server (pid {holder.get('pid', 'unknown')}) already uses the data folder {path}"
                           + (f" and serves {holder['url']}" if "url" in holder else "")
                           + ". Stop it, or set ACCEPTED_DATA_DIR to another folder.") from error
        return cls(path, lock)

    def sign(self, url: str) -> None:
        """Write down who holds the folder, for `tenant`."""
        self._lock.truncate(0)
        self._lock.write(json.dumps({"pid": os.getpid(), "url": url}))
        self._lock.flush()


def tenant(path: Path) -> dict | None:
    """`{"pid", "url"}` of the server that wrote last into the lock file, and may be gone. None if none is known."""
    try:
        found = json.loads((path / LOCK).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def refuse_network(path: Path) -> None:
    """Unusable if `path` lies on a network file system, where SQLite's locks and shared memory do not hold."""
    kind = file_system(path.resolve(), _mounts())
    if _REMOTE.fullmatch(kind):
        raise Unusable(f"The data folder {path} lies on a network file system ({kind}), where SQLite is not safe. "
                       "Set ACCEPTED_DATA_DIR to a local folder, or ACCEPTED_DATABASE_URL to a PostgreSQL server.")


def file_system(path: Path, mounts: list[tuple[str, str]]) -> str:
    """The type of the file system that holds `path`: the deepest mount point above it, the last one mounted there."""
    above = [(len(Path(point).parts), index, kind)
             for index, (point, kind) in enumerate(mounts) if path.is_relative_to(point)]
    return max(above)[2] if above else ""


def _mounts() -> list[tuple[str, str]]:
    """(mount point, type) in order of mounting."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:     # macOS: `//me@host/share on /Volumes/share (smbfs, nodev, nosuid)`
        listing = subprocess.run(["mount"], capture_output=True, text=True).stdout
        return re.findall(r"^.* on (.+?) \((\w+)", listing, re.MULTILINE)
    fields = (line.split(" ") for line in lines)
    return [(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), point), kind) for _, point, kind, *_ in fields]
