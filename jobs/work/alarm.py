"""The time-out of an attempt, seen from inside: an exception raised into the handler when its time is up.

It is no `Exception`, so that a handler's `except Exception` does not swallow it. It is raised only in handler code; in
a call of the Context it waits until that call is through, so that nothing of ours is left half done.
"""

import signal
import threading
from types import FrameType, TracebackType


class JobTimedOut(BaseException):
    """The attempt took longer than it may."""


class JobCancelled(BaseException):
    """Somebody asked to cancel the job; raised by calls of the Context."""


class AttemptLost(JobCancelled):
    """The attempt was given to another worker; what this one does no longer counts."""


class Alarm:
    """Armed as a context manager around handler code: `with alarm(seconds): …`. `alarm.held()` defers it."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._armed = False
        self._due = False
        self._depth = 0
        self._previous: signal.Handlers | None = None

    def __call__(self, seconds: float) -> "Alarm":
        self._seconds = seconds
        return self

    def __enter__(self) -> "Alarm":
        self._due, self._armed = False, True
        self._previous = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._armed = False  # first: a signal that is already under way must find nothing to do
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._previous or signal.SIG_DFL)

    def held(self) -> "_Held":
        """A context manager inside which the exception waits."""
        return _Held(self)

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        if self._armed and self._depth:
            self._due = True
        elif self._armed:
            self._armed = False
            raise JobTimedOut

    def check(self) -> None:
        """Raise the exception that waits; for long calls of the Context, at a place where they can be left."""
        if self._due:
            self._due = self._armed = False
            raise JobTimedOut


class _Held:
    """Defers the alarm in the main thread, where signals arrive; other threads are never interrupted."""

    def __init__(self, alarm: Alarm):
        self._alarm = alarm
        self._counts = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        if self._counts:
            self._alarm._depth += 1

    def __exit__(self, kind: type | None, *_: object) -> None:
        if self._counts:
            self._alarm._depth -= 1
            if not self._alarm._depth and kind is None:
                self._alarm.check()
