"""No process outlives its server: what ties a child to its parent, and who sweeps up when a parent is killed outright.

Linux kills a tied child when its parent dies. What such a child had started itself is found by its session, which every
direct child of the supervisor leads, and on Linux by a mark too, which even a process in a session of its own inherits,
whatever environment and files it was started with: `end_all` kills those, and a watchdog process does the same when the
supervisor vanishes. On macOS, which has no parent-death signal, the watchdog alone does the work.

The mark is a number that no other process has as its limit of file locks: Linux has not counted these since 2.4.25, yet
hands the limit on across fork and exec (getrlimit(2)) and shows it to everybody. Adopting orphans instead would find
strangers too: what ran before the server in the same shell, and in a container the orphans of everyone.
"""

import contextlib
import ctypes
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

_PR_SET_PDEATHSIG = 1
_RLIMIT_LOCKS = 10      # on every architecture; the resource module has no name for it
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def tie_to_parent(parent: int) -> None:
    """For a fresh child, before it does anything else: die by SIGKILL as soon as `parent`, its parent, is gone."""
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:      # it died before the call, and the signal will never come
        os.kill(os.getpid(), signal.SIGKILL)


def new_mark() -> int:
    """A mark that nobody else bears."""
    return secrets.randbelow(sys.maxsize)


def bear(mark: int) -> None:
    """For a fresh child: this process, and all that it ever starts, can be found by the mark."""
    if _libc is None:
        return
    with contextlib.suppress(OSError, ValueError):      # who may not do this is still found by the session
        resource.setrlimit(_RLIMIT_LOCKS, (mark, resource.getrlimit(_RLIMIT_LOCKS)[1]))


def end_all(guarded: Mapping[int, int]) -> None:
    """SIGKILL every process of the sessions that these pids lead or led, the leaders too, and every one that bears a mark
    of theirs. Asks twice, against forks."""
    marks = set(map(str, guarded.values()))
    for _ in range(2):
        for pid in _pids():
            with contextlib.suppress(OSError):
                if pid != os.getpid() and (os.getsid(pid) in guarded or _mark(pid) in marks):
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

    def guard(self, leader: int, mark: int) -> None:
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


def _mark(pid: int) -> str | None:
    """Its soft limit of file locks; None where that cannot be read."""
    try:
        with open(f"/proc/{pid}/limits") as limits:
            return next((line.split()[3] for line in limits if line.startswith("Max file locks")), None)
    except OSError:
        return None


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
            guarded[int(leader)] = int(mark[0])
        else:
            guarded.pop(int(leader), None)
    end_all(guarded)
    if guarded:
        time.sleep(0.2)     # for what was being forked while its parents died
        end_all(guarded)


if __name__ == "__main__":
    _watch()
