"""One attempt at a job, from its row to its outcome: find the type → load the payload → run the handler → judge."""

import json
import logging
import random
from typing import Any

from marshmallow import ValidationError

from jobs.core.outcome import Again, Cancelled, Failed, Outcome, Succeeded
from jobs.db import Row
from jobs.errors import Problem, Retry
from jobs.work.alarm import Alarm, AttemptLost, JobCancelled, JobTimedOut
from jobs.work.context import Context
from jobs.work.job_type import JobType, Registry

CLEANUP_SECONDS = 30
_BACKOFF = (2, 10, 60, 300)  # seconds before attempt 2, 3, …; varied by a quarter, so that retries do not march in step
_log = logging.getLogger(__name__)


def perform(row: Row, job: Context, registry: Registry, alarm: Alarm) -> Outcome | None:
    """Run the handler of a claimed job; what became of it, or None when the attempt is no longer ours.

    `job` is the Context that the handler is given.
    """
    kind = registry.get(row.type)
    if kind is None:
        return Failed(Problem("unknown-type", f"This server no longer knows the type {row.type}."))
    if kind.unavailable:
        return Failed(Problem("type-unavailable", kind.unavailable))
    return job.cover.outcome(_run(row, job, kind, alarm))


def _run(row: Row, job: Context, kind: JobType, alarm: Alarm) -> Outcome | None:
    try:
        with alarm(row.timeout):
            value = kind.handler(job, **_payload(row, kind))
        return _succeeded(value, job)
    except Problem as problem:
        return Failed(problem)
    except Retry as retry:
        return Again(retry.problem, backoff(row.attempt) if retry.after is None else retry.after)
    except AttemptLost:
        return None
    except JobCancelled:
        return Cancelled()
    except JobTimedOut:
        return timed_out(row.attempt, row.timeout)
    except BaseException as error:  # sys.exit() in a handler ends the attempt, not the horse
        _log.exception("%s %s, attempt %s: the handler raised", row.type, row.id, row.attempt)
        return Again(Problem("job-raised", f"{type(error).__name__}: {error}"[:2000]), backoff(row.attempt))


def clean(row: Row, job: Context, kind: JobType | None, alarm: Alarm) -> bool:
    """Let the type undo what an attempt left, for at most CLEANUP_SECONDS; whether that worked, or there was nothing to do."""
    if kind is None or kind.cleanup is None:
        return True
    try:
        with job.uncancelled(), alarm(CLEANUP_SECONDS):
            kind.cleanup(job, **_payload(row, kind))
        return True
    except BaseException as error:
        _log.exception("%s %s, attempt %s: the clean-up failed", row.type, row.id, row.attempt)
        with job.uncancelled():
            job.log(f"The clean-up failed: {type(error).__name__}: {error}")
        return False


def _payload(row: Row, kind: JobType) -> dict[str, Any]:
    """The handler's keyword arguments; the schema may have changed since the payload was accepted."""
    try:
        return kind.schema.load(json.loads(row.payload_private or row.payload))
    except ValidationError as error:
        raise Problem("invalid-payload", f"It no longer fits the type: {error}"[:2000]) from None


def _succeeded(value: Any, job: Context) -> Outcome:
    """Judge the result: it must be JSON, and not too long."""
    try:
        result = _json(value)
        fields = _json(job.described) if job.described else None
    except (TypeError, ValueError, RecursionError) as error:
        return Failed(Problem("result-invalid", f"{type(error).__name__}: {error}"[:2000]))
    size, limit = len(result.encode()), job.settings.max_result
    if size > limit:
        return Failed(Problem("result-too-large", f"It has {size} bytes; the limit is {limit}."))
    return Succeeded(result, job.skipped, fields)


def _json(value: Any) -> str:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    text.encode()  # a lone surrogate is no text; better known now than at the first read
    return text


def backoff(attempt: int) -> float:
    """Seconds to wait after this attempt before the next."""
    return _BACKOFF[min(attempt, len(_BACKOFF)) - 1] * random.uniform(0.75, 1.25)


def timed_out(attempt: int, timeout: float) -> Again:
    """The outcome of an attempt that took too long."""
    return Again(Problem("job-timed-out", f"It ran for more than {timeout:g} seconds."), backoff(attempt))


def crashed(attempt: int) -> Again:
    """The outcome of an attempt whose process died under it."""
    return Again(Problem("worker-crashed"), backoff(attempt))
