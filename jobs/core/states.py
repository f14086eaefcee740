"""The states of a job and the edges between them (a closed set; clients may rely on it).

queued → running → succeeded | failed | cancelled | partialSuccess; queued → cancelled | failed; and back,
running → queued, when an attempt was lost or may be repeated.
"""

from enum import StrEnum


class Status(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PARTIAL = "partialSuccess"


ACTIVE = frozenset({Status.QUEUED, Status.RUNNING})
TERMINAL = frozenset(Status) - ACTIVE
WITH_RESULT = frozenset({Status.SUCCEEDED, Status.PARTIAL})
RETRYABLE = TERMINAL - {Status.SUCCEEDED}

EDGES = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED, Status.FAILED}),
    Status.RUNNING: TERMINAL | {Status.QUEUED},
} | {status: frozenset() for status in TERMINAL}


class Priority(StrEnum):
    """How urgent a job is. Stored as its place in this list, so that a smaller number goes first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def rank(self) -> int:
        return list(Priority).index(self)

    @classmethod
    def of(cls, rank: int) -> "Priority":
        return list(cls)[rank]
