"""What the rider knows of the attempt that runs, and the ways in which a ride can end without the horse's word."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobs import clock


class Fate(StrEnum):
    """Why the horse had to be put down."""

    CANCELLED = "it was cancelled and did not stop"
    TIMED_OUT = "it took too long and did not stop"
    CRASHED = "its process died"
    LOST = "its lease is gone"
    HANDED_BACK = "the worker stops"


@dataclass
class Attempt:
    """One attempt. Times are those of the monotonic clock."""

    id: int
    attempt: int
    type: str
    owner: str
    timeout: float
    cleanup: bool
    since: float = field(default_factory=clock.monotonic)
    state: dict[str, Any] = field(default_factory=lambda: {"progress": 0, "stage": None, "eta": None})
    lines: list[tuple[str, str]] = field(default_factory=list)   # of the log, not yet written
    unwritten: bool = False      # the state is newer than the database
    unpublished: bool = False    # the state is newer than the last message
    written: float = 0.0         # when the lease was beaten last, with all that was reported
    shown: float = 0.0           # when the job's version moved last
    published: float = 0.0
    looked: float = 0.0          # for a cancel
    end: float = 0.0             # when the horse is killed, and as what
    end_as: Fate = Fate.TIMED_OUT
    cancel_asked: bool = False
    left: bool = False           # the handler is through; cancel and time-out no longer apply
    released: bool = False       # the horse knows that all it told is on disk

    def __post_init__(self) -> None:
        self.written = self.shown = self.since

    @property
    def untold(self) -> bool:
        """Whether anything that the horse reported is not on disk yet."""
        return self.unwritten or bool(self.lines)

    def ends(self, at: float, fate: Fate) -> None:
        """Have the horse killed at this time."""
        self.end, self.end_as = at, fate

    def bell(self) -> dict[str, Any]:
        """The doorbell's message about progress that is not on disk yet; `at` tells it from a row written later."""
        return {"id": self.id, "version": None, "at": clock.wire(clock.now()), "status": "running",
                "progress": self.state["progress"], "stage": self.state["stage"], "attempt": self.attempt,
                "owner": self.owner}
