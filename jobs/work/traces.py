"""What a job may leave behind in a process that is used again, and how to notice it."""

import gc
import os
import signal
from _thread import _count as count_threads
from typing import Any

from jobs.work import process

_OUR_SIGNALS = frozenset({signal.SIGKILL, signal.SIGSTOP})


class Traces:
    """A look at this process before a job; `left()` names what is different afterwards."""

    def __init__(self) -> None:
        self._before = _look()

    def left(self) -> list[str]:
        """What the job changed and did not put back, in words. Child processes are killed."""
        children = process.end_children()
        after = _look()
        if after["open files"] != self._before["open files"]:
            gc.collect()  # files that only a reference cycle keeps open are no leak
            after = _look()
        found = [name for name, value in after.items() if value != self._before[name]]
        return found + [f"{children} child processes"] * bool(children)


def _look() -> dict[str, Any]:
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "working directory": _working_directory(),
        "environment": dict(os.environ),
        "umask": umask,
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals() - _OUR_SIGNALS},
        "threads": count_threads(),
        "open files": _open_files(),
    }


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _open_files() -> frozenset[int]:
    found = set()
    for name in os.listdir("/dev/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the descriptor that listed the folder
        found.add(int(name))
    return frozenset(found)
