"""What can become of an attempt, as a worker reports it to `lifecycle.settle`."""

from dataclasses import dataclass, field

from jobs.errors import Problem


@dataclass(frozen=True)
class Succeeded:
    """The handler returned. `result` is JSON text; `skipped` makes it a partial success; `fields` (JSON text) fill the resource."""

    result: str
    skipped: list[dict] = field(default_factory=list)   # [{"part": "720p", "detail": "why"}]
    fields: str | None = None


@dataclass(frozen=True)
class Failed:
    """The job has failed for good."""

    problem: Problem


@dataclass(frozen=True)
class Again:
    """This attempt is over; another may start `delay` seconds from now, if any is left."""

    problem: Problem
    delay: float = 0.0


@dataclass(frozen=True)
class Cancelled:
    """The work stopped because a cancel was requested."""


Outcome = Succeeded | Failed | Again | Cancelled
