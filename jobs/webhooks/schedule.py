"""When a delivery is tried again, and what each answer means for it (the table in docs/callbacks.md)."""

import random
from dataclasses import dataclass

from jobs.connections import Unreachable
from jobs.errors import Problem
from jobs.targets import Answer, retry_after

# Seconds before each further attempt: 27 h 42 min 35 s in all, and up to a fifth more.
DELAYS = (5, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200)
JITTER = 0.2
MAX_RETRY_AFTER = 86400.0
DISABLE_AFTER = 5 * 86400.0

Outcome = Answer | Unreachable | Problem


@dataclass(frozen=True)
class Verdict:
    """`state` is delivered, failed or pending: try again in `delay` seconds. `gone`: the receiver wants no more."""

    state: str
    delay: float = 0.0
    note: str | None = None
    gone: bool = False


def judge(outcome: Outcome, step: int) -> Verdict:
    """What follows from the outcome of an attempt at place `step` (from 0) of the schedule."""
    if isinstance(outcome, Answer):
        if 200 <= outcome.status < 300:
            return Verdict("delivered")
        if outcome.status == 410:
            return Verdict("failed", note="The receiver answered 410: it wants no more.", gone=True)
    if step >= len(DELAYS):
        return Verdict("failed", note="No attempts are left.")
    return Verdict("pending", max(_pause(step), _asked(outcome)))


def _pause(step: int) -> float:
    return DELAYS[step] * (1 + random.uniform(0, JITTER))


def _asked(outcome: Outcome) -> float:
    """What a busy receiver asked for: it can put the next attempt off by up to a day, never bring it forward."""
    if isinstance(outcome, Answer) and outcome.status in (429, 503):
        return min(retry_after(outcome.headers) or 0.0, MAX_RETRY_AFTER)
    return 0.0
