"""The turn to write: a lock that one process holds at a time, and that says who holds it.

`lockf`, not `flock`: a POSIX lock belongs to the process and ends with it, while a flock lives on in whatever child was
forked meanwhile. POSIX has a trap, too: closing *any* descriptor of the file gives the lock up. So there is one.
"""

import contextlib
import fcntl
import os
import struct
from pathlib import Path

_HOLDER = struct.Struct("=qq")


class Turn:
    """Use as a context manager, by one thread at a time."""

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None
        self._number = 0

    def __enter__(self) -> "Turn":
        file = self._open()
        fcntl.lockf(file, fcntl.LOCK_EX)
        self._number = self._read()[1] + 1
        self._note(os.getpid())
        return self

    def __exit__(self, *_: object) -> None:
        self._note(0)
        fcntl.lockf(self._file, fcntl.LOCK_UN)

    def holder(self) -> tuple[int, int] | None:
        """(pid, number of its turn) of another process that holds the turn now, or None."""
        pid, number = self._read()
        if not pid or pid == os.getpid():
            return None
        try:
            fcntl.lockf(self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return pid, number
        fcntl.lockf(self._open(), fcntl.LOCK_UN)    # whoever is noted died in its turn
        return None

    def close(self) -> None:
        """Close the descriptor; the next turn opens it again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    # The note is for those who watch. On a disk that refuses it the holder is unknown and the turn itself is safe.

    def _read(self) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            data = os.pread(self._open(), _HOLDER.size, 0)
            if len(data) == _HOLDER.size:
                return _HOLDER.unpack(data)
        return 0, 0

    def _note(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._file, _HOLDER.pack(pid, self._number), 0)
