"""The turn to write: a lock that one process holds at a time, and that says who holds it.

`lockf`, not `flock`: a POSIX lock belongs to the process and ends with it, while a flock lives on in whatever child was
forked meanwhile. POSIX has a trap, too: closing *any* descriptor of the file gives the lock up. So there is one.
"""

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

    def __enter__(self) -> "Turn":
        file = self._open()
        fcntl.lockf(file, fcntl.LOCK_EX)
        self._note(os.getpid(), self._read()[1] + 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._note(0, self._read()[1])
        fcntl.lockf(self._open(), fcntl.LOCK_UN)

    def holder(self) -> tuple[int, int] | None:
        """(pid, number of its turn) of the holder, or None. A holder that died may be named until the next turn."""
        pid, turn = self._read()
        return (pid, turn) if pid else None

    def close(self) -> None:
        """Close the descriptor; the next turn opens it again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def _read(self) -> tuple[int, int]:
        data = os.pread(self._open(), _HOLDER.size, 0)
        return _HOLDER.unpack(data) if len(data) == _HOLDER.size else (0, 0)

    def _note(self, pid: int, turn: int) -> None:
        # On a full disk the first 16 bytes may be refused; who holds the turn is then unknown, the turn itself is safe.
        try:
            os.pwrite(self._open(), _HOLDER.pack(pid, turn), 0)
        except OSError:
            pass
