"""No process outlives its server: what ties a child to its parent, and who sweeps up when a parent is killed outright.

Linux kills a tied child when its parent dies. What such a child had started itself is found by its session, which every
direct child of the supervisor leads, and on Linux by a mark in its environment too, which even a process in a session of
its own inherits: `end_all` kills those, and a watchdog process does the same when the supervisor vanishes. On macOS, which
has no parent-death signal, the watchdog alone does the work.
"""

import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

MARK = "LEASH_OF_ACCEPTED"
"""The variable that bears the mark. Whoever starts a program with another environment takes it off the leash."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def tie_to_parent(parent: int) -> None:
    """For a fresh child, before it does anything else: die by SIGKILL as soon as `parent`, its parent, is gone."""
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:      # it died before the call, and the signal will never come
        os.kill(os.getpid(), signal.SIGKILL)


def new_mark() -> str:
    """A value of MARK that nobody else has."""
    return secrets.token_hex(8)


def end_all(guarded: Mapping[int, str]) -> None:
    """SIGKILL every process of the sessions that these pids lead or led, the leaders too, and every one that bears a mark
    of theirs. Asks twice, against forks."""
    marks = {f"{MARK}={mark}".encode() for mark in guarded.values()}
    for _ in range(2):
        for pid in _pids():
            with contextlib.suppress(OSError):
                if pid != os.getpid() and (os.getsid(pid) in guarded or _environment(pid) & marks):
                    os.kill(pid, signal.SIGKILL)


def descends(pid: int, ancestor: int) -> bool:
    """Whether `pid` runs below `ancestor`: its child, or a child's child, and so on."""
    while pid > 1:
        pid = _parent(pid)
        if pid == ancestor:
            return True
    return False


class Watchdog:
    """A small process of its own that ends the families entrusted to it when this process is gone."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, text=True, start_new_session=True)

    def guard(self, leader: int, mark: str) -> None:
        """From now on the session that `leader` leads and all that bears the mark are swept up when we die."""
        self._tell(f"+{leader} {mark}")

    def release(self, leader: int) -> None:
        """The session is gone; its number may be used by others."""
        self._tell(f"-{leader}")

    def close(self) -> None:
        """Let the watchdog go; whatever is still guarded is ended."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):      # somebody killed it: the parent-death signals still hold
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def _pids() -> list[int]:
    if os.path.isdir("/proc/self"):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [int(pid) for pid in subprocess.run(["ps", "-axo", "pid="], capture_output=True, text=True).stdout.split()]


def _environment(pid: int) -> set[bytes]:
    """What a process of ours was started with; empty where that cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return set(environ.read().split(b"\0"))
    except OSError:
        return set()


def _parent(pid: int) -> int:
    """The pid of the parent; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        if _libc is not None:
            return 0
        answer = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True)
        return int(answer.stdout or 0)
    except ProcessLookupError:
        return 0


def _watch() -> None:
    """The watchdog itself: "+pid mark" and "-pid" on stdin, the sweep at its end."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)       # it ends with its parent, not before
    guarded = {}
    for line in sys.stdin:
        leader, *mark = line[1:].split()
        if mark:
            guarded[int(leader)] = mark[0]
        else:
            guarded.pop(int(leader), None)
    end_all(guarded)
    if guarded:
        time.sleep(0.2)     # for what was being forked while its parents died
        end_all(guarded)


if __name__ == "__main__":
    _watch()
