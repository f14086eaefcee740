"""What the worker asks of the operating system about the processes below it (`jobs.leash` has what ties them to it).

Linux is the full platform. Elsewhere there is no subreaper: a job's child that has left the horse's process group and
whose own parent has ended is not found.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform.startswith("linux")
_libc = ctypes.CDLL(None) if _LINUX else None


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, however it was started."""
    if _libc:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def own_group(pid: int = 0) -> None:
    """Put a process into a group of its own. Parent and child both do it, so that neither has to wait."""
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)


def end_children(patience: float = 5) -> int:
    """Kill every child of this process, and theirs as they come to us; how many there were.

    Costs one system call when there are none. `patience` bounds the wait for processes that cannot die.
    """
    ended, deadline = 0, time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            ended += 1
            continue
        for child in children(os.getpid()):
            kill(child)
        time.sleep(0.001)
    return ended


def end_tree(pid: int) -> None:
    """Kill a child of this process and all of its descendants."""
    for descendant in children(pid):
        end_tree(descendant)
    kill(pid)


def kill(pid: int) -> None:
    """SIGKILL to one process, which may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """SIGKILL to the group that `pid` leads; never to our own, whatever `pid` is."""
    if pid > 1 and pid != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The pids of the living children of a process."""
    return [child for child, parent in _parents() if parent == pid]


def _parents() -> list[tuple[int, int]]:
    if _LINUX:
        return [pair for entry in os.listdir("/proc") if entry.isdigit() and (pair := _from_proc(entry))]
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True).stdout
    return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listing.splitlines())]


def _from_proc(pid: str) -> tuple[int, int] | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return None  # it ended while we looked
    return None if state in "ZX" else (int(pid), int(parent))


def memory() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell cheaply."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
