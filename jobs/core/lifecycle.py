"""The only place that writes a job's status: named transitions, each a guarded UPDATE.

A transition that finds the job elsewhere changes nothing and answers None: losing a race is an ordinary return. The
winner takes the next version, writes its event, keeps the tallies, moves the resource along and rings the doorbell, all
in the caller's transaction.
"""

import json
from dataclasses import dataclass

from jobs import clock
from jobs.core import cleanups, events, resources, tallies
from jobs.core.outcome import Again, Cancelled, Failed, Outcome, Succeeded
from jobs.core.states import Status
from jobs.db import Row, Transaction
from jobs.errors import Problem


@dataclass(frozen=True)
class Beat:
    """What a renewed lease brings back."""

    cancel_requested: bool


# Starting


def start(tx: Transaction, job_id: int, worker: str) -> Row | None:
    """queued → running: the next attempt begins under a fresh lease."""
    row = _move(tx, job_id, Status.QUEUED, Status.RUNNING, None, event="job.started", set_="""
        attempt = attempt + 1, started_at = coalesce(started_at, :now), heartbeat_at = :now, progress = 0, stage = NULL,
        eta = NULL, due_at = NULL, next_attempt_at = NULL, start_by = NULL""")
    if row is None:
        return None
    tx.run("INSERT INTO leases (job_id, attempt, worker, beat, cancel, started_at) VALUES (:id, :attempt, :worker, 0, 0, :now)",
           id=job_id, attempt=row.attempt, worker=worker, now=tx.now)
    tx.run("INSERT INTO attempts (job_id, attempt, worker, started_at) VALUES (:id, :attempt, :worker, :now)",
           id=job_id, attempt=row.attempt, worker=worker, now=tx.now)
    return row


# While it runs


def beat(tx: Transaction, job_id: int, attempt: int) -> Beat | None:
    """Renew the lease; takes no version. None: the attempt is no longer this worker's, stop it and write nothing."""
    cancel = tx.value("UPDATE leases SET beat = beat + 1 WHERE job_id = :id AND attempt = :attempt RETURNING cancel",
                      id=job_id, attempt=attempt)
    return None if cancel is None else Beat(cancel_requested=bool(cancel))


def report(tx: Transaction, job_id: int, attempt: int, progress: int | None, stage: str | None,
           eta: str | None = None) -> int | None:
    """Write progress down (0..99 or None; the caller never lets it fall). The new version, or None if the lease is lost.

    Without any change it still moves `heartbeatAt` and the version: that is how a silent job shows that it lives.
    """
    row = _update(tx, job_id, Status.RUNNING, attempt, "progress = :progress, stage = :stage, eta = :eta, heartbeat_at = :now",
                  progress=progress, stage=stage, eta=eta)
    return row.version if row else None


# Ending an attempt


def settle(tx: Transaction, job_id: int, attempt: int, outcome: Outcome) -> Status | None:
    """End an attempt. Answers where the job stands now, or None: somebody else was first and nothing was written."""
    match outcome:
        case Succeeded(result, [], fields):
            return _finish(tx, job_id, Status.RUNNING, Status.SUCCEEDED, attempt, progress=100, result=result, fields=fields)
        case Succeeded(result, skipped, fields):
            problem = Problem("parts-failed", f"{len(skipped)} could not be done.", errors=skipped)
            return _finish(tx, job_id, Status.RUNNING, Status.PARTIAL, attempt, result=result, fields=fields, problem=problem)
        case Failed(problem):
            return _finish(tx, job_id, Status.RUNNING, Status.FAILED, attempt, problem=problem)
        case Again(problem, delay):
            return _again(tx, job_id, attempt, problem, delay)
        case Cancelled():
            return _finish(tx, job_id, Status.RUNNING, Status.CANCELLED, attempt)


def lose(tx: Transaction, job_id: int, attempt: int, problem: Problem) -> Status | None:
    """The attempt's worker is gone: the job goes back to the queue, or fails with `problem` when attempts are used up."""
    return _again(tx, job_id, attempt, problem, 0.0)


def hand_back(tx: Transaction, job_id: int, attempt: int) -> Status | None:
    """A worker that must stop gives its attempt back; that is nobody's fault, so another attempt is granted."""
    tx.run("UPDATE jobs SET max_attempts = attempt + 1 WHERE id = :id AND status = 'running' AND attempt = :attempt "
           "AND max_attempts <= attempt", id=job_id, attempt=attempt)
    return _again(tx, job_id, attempt, Problem("worker-lost", "The worker was stopped; the job was handed back."), 0.0)


def _again(tx: Transaction, job_id: int, attempt: int, problem: Problem, delay: float) -> Status | None:
    row = tx.one("SELECT max_attempts, cancel_requested_at FROM jobs WHERE id = :id AND status = 'running' "
                 "AND attempt = :attempt", id=job_id, attempt=attempt)
    if row is None:
        return None
    if row.cancel_requested_at:
        return _finish(tx, job_id, Status.RUNNING, Status.CANCELLED, attempt)
    if attempt >= row.max_attempts:
        return _finish(tx, job_id, Status.RUNNING, Status.FAILED, attempt, problem=problem)
    due_at = clock.after(delay)
    row = _move(tx, job_id, Status.RUNNING, Status.QUEUED, attempt, event="job.requeued", due_at=due_at,
                next_attempt_at=due_at, set_="""due_at = :due_at, next_attempt_at = :next_attempt_at, progress = 0,
                stage = NULL, eta = NULL, heartbeat_at = NULL""")
    _end_attempt(tx, row, "requeued", problem)
    return Status.QUEUED


# Ending a job


def request_cancel(tx: Transaction, job_id: int) -> Row | None:
    """A queued job is cancelled at once; a running one is asked to stop, once. None when it is neither."""
    if _finish(tx, job_id, Status.QUEUED, Status.CANCELLED, None):
        return tx.one("SELECT * FROM jobs WHERE id = :id", id=job_id)
    row = tx.one("SELECT * FROM jobs WHERE id = :id AND status = 'running'", id=job_id)
    if row is None or row.cancel_requested_at:
        return row
    tx.run("UPDATE leases SET cancel = 1 WHERE job_id = :id", id=job_id)
    row = _update(tx, job_id, Status.RUNNING, row.attempt, "cancel_requested_at = :now")
    events.write(tx, row, "job.cancelRequested")
    return row


def expire_queued(tx: Transaction, job_id: int) -> Status | None:
    """queued → failed: nobody started it within its queueTtl."""
    waiting = tx.value("SELECT 1 FROM jobs WHERE id = :id AND status = 'queued' AND start_by <= :now", id=job_id, now=tx.now)
    if not waiting:
        return None
    return _finish(tx, job_id, Status.QUEUED, Status.FAILED, None, problem=Problem("never-started"))


def _finish(tx: Transaction, job_id: int, source: Status, target: Status, attempt: int | None, *, progress: int | None = None,
            result: str | None = None, problem: Problem | None = None, fields: str | None = None) -> Status | None:
    retention = tx.value("SELECT retention FROM jobs WHERE id = :id", id=job_id)
    keep_progress = "" if progress is None else "progress = :progress,"
    row = _move(tx, job_id, source, target, attempt, event=f"job.{target}", progress=progress, result=result,
                result_size=len(result or ""), error=_stored(problem), expires_at=clock.after(retention or 0, clock.parse(tx.now)),
                set_=f"""{keep_progress} stage = NULL, eta = NULL, result = :result, result_size = :result_size, error = :error,
                due_at = NULL, next_attempt_at = NULL, start_by = NULL, finished_at = :now, expires_at = :expires_at""")
    if row is None:
        return None
    if source == Status.RUNNING:
        _end_attempt(tx, row, str(target), problem)
    resources.follow(tx, row, fields)
    return target


def _end_attempt(tx: Transaction, row: Row, outcome: str, problem: Problem | None) -> None:
    tx.run("DELETE FROM leases WHERE job_id = :id", id=row.id)
    tx.run("UPDATE attempts SET ended_at = :now, outcome = :outcome, error = :error WHERE job_id = :id AND attempt = :attempt",
           id=row.id, attempt=row.attempt, outcome=outcome, error=_stored(problem), now=tx.now)
    if outcome in (Status.SUCCEEDED, Status.PARTIAL):
        cleanups.drop(tx, row.id, row.attempt)
    else:  # what an unsuccessful attempt left is removed by the type's clean-up, and by the sweep
        cleanups.fall_due(tx, row)
        tx.run("UPDATE artifacts SET state = 'doomed' WHERE job_id = :id AND attempt = :attempt AND state = 'whole'",
               id=row.id, attempt=row.attempt)


# The two statements that change a job


def _move(tx: Transaction, job_id: int, source: Status, target: Status, attempt: int | None, *, event: str, set_: str,
          **values) -> Row | None:
    """One edge of the state machine."""
    row = _update(tx, job_id, source, attempt, f"status = :target, {set_}", target=target, **values)
    if row is not None:
        tallies.move(tx, row, source, target)
        events.write(tx, row, event)
    return row


def _update(tx: Transaction, job_id: int, status: Status, attempt: int | None, set_: str, **values) -> Row | None:
    """A visible change, guarded by id, status and attempt."""
    guard = "" if attempt is None else "AND attempt = :guard"
    row = tx.one(f"UPDATE jobs SET {set_}, version = :version, updated_at = :now WHERE id = :id AND status = :source {guard} "
                 "RETURNING *", id=job_id, source=status, guard=attempt, version=tx.next_version(), now=tx.now, **values)
    if row is not None:
        tx.announce(events.bell(row))
    return row


def _stored(problem: Problem | None) -> str | None:
    return json.dumps(problem.members(""), ensure_ascii=False, separators=(",", ":")) if problem else None
