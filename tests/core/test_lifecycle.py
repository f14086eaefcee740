"""Every transition: what it changes, what it refuses, and what it leaves behind."""

import json

import pytest

from jobs.core import journal, lifecycle, tallies
from jobs.core.outcome import Again, Cancelled, Failed, Succeeded
from jobs.core.states import Status
from jobs.errors import Problem
from tests.core import given

OUTCOMES = {
    "succeeded": Succeeded('{"n":1}'),
    "partialSuccess": Succeeded('{"n":1}', [{"part": "b", "detail": "empty"}]),
    "failed": Failed(Problem("drill-failed", "as asked")),
    "cancelled": Cancelled(),
}


@pytest.mark.parametrize("status", OUTCOMES)
def test_a_settled_job_has_all_that_belongs_to_its_end(db, status):
    job = given.settled(db, OUTCOMES[status])
    assert job.status == status
    assert job.finished_at and job.expires_at > job.finished_at
    assert job.due_at is job.stage is job.eta is job.next_attempt_at is None
    assert (job.progress == 100) == (status == "succeeded")
    assert (job.result is not None) == (status in ("succeeded", "partialSuccess"))
    assert (job.error is not None) == (status in ("failed", "partialSuccess"))
    assert db.read().value("SELECT count(*) FROM leases") == 0
    attempt = db.read().one("SELECT * FROM attempts")
    assert (attempt.outcome, bool(attempt.ended_at)) == (status, True)


@pytest.mark.parametrize("first", OUTCOMES)
@pytest.mark.parametrize("second", [*OUTCOMES, "again", "cancel", "lost", "handed back", "report"])
def test_a_terminal_state_is_final(db, first, second):
    job = given.settled(db, OUTCOMES[first])
    late = {
        "again": lambda tx: lifecycle.settle(tx, job.id, 1, Again(Problem("job-raised"))),
        "cancel": lambda tx: lifecycle.request_cancel(tx, job.id),
        "lost": lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")),
        "handed back": lambda tx: lifecycle.hand_back(tx, job.id, 1),
        "report": lambda tx: lifecycle.report(tx, job.id, 1, 50, "late"),
    }.get(second, lambda tx: lifecycle.settle(tx, job.id, 1, OUTCOMES[second]))
    rung = len(db.rung)
    assert db.write(late) is None
    assert given.row_of(db, job.id) == job
    assert len(db.rung) == rung


def test_only_the_attempt_that_runs_may_write(db):
    job = given.running(db)
    db.write(lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")))
    again = given.claimed(db)
    assert (again.id, again.attempt) == (job.id, 2)
    late = [
        lambda tx: lifecycle.settle(tx, job.id, 1, Succeeded("1")),
        lambda tx: lifecycle.report(tx, job.id, 1, 99, "late"),
        lambda tx: lifecycle.beat(tx, job.id, 1),
        lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")),
    ]
    assert [db.write(write) for write in late] == [None] * len(late)
    assert given.row_of(db, job.id) == again


def test_an_attempt_that_may_be_repeated_waits_for_its_time(db):
    job = given.settled(db, Again(Problem("job-raised", "boom"), delay=60))
    assert (job.status, job.attempt, job.progress) == ("queued", 1, 0)
    assert job.next_attempt_at == job.due_at > job.updated_at
    assert given.claimed(db) is None
    assert db.read().one("SELECT * FROM attempts").outcome == "requeued"


def test_attempts_are_used_up_in_the_end(db):
    job = given.running(db, max_attempts=2)
    db.write(lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")))
    given.claimed(db)
    assert db.write(lambda tx: lifecycle.lose(tx, job.id, 2, Problem("worker-lost"))) == Status.FAILED
    error = json.loads(given.row_of(db, job.id).error)
    assert error["type"] == "/problems/worker-lost"


def test_a_drained_worker_costs_the_job_no_attempt(db):
    job = given.running(db, max_attempts=1)
    assert db.write(lambda tx: lifecycle.hand_back(tx, job.id, 1)) == Status.QUEUED
    row = given.claimed(db)
    assert (row.attempt, row.max_attempts) == (2, 2)


def test_cancelling_a_queued_job_ends_it_and_it_never_starts(db):
    job = given.queued(db)
    assert db.write(lambda tx: lifecycle.request_cancel(tx, job.id)).status == "cancelled"
    assert given.claimed(db) is None


def test_cancelling_a_running_job_is_recorded_once_and_reaches_the_worker(db):
    job = given.running(db)
    assert db.write(lambda tx: lifecycle.beat(tx, job.id, 1)).cancel_requested is False
    first = db.write(lambda tx: lifecycle.request_cancel(tx, job.id))
    second = db.write(lambda tx: lifecycle.request_cancel(tx, job.id))
    assert first.cancel_requested_at and first.version == second.version
    assert db.write(lambda tx: lifecycle.beat(tx, job.id, 1)).cancel_requested is True


@pytest.mark.parametrize("end", ["again", "lost", "handed back"])
def test_a_job_that_was_to_be_cancelled_never_starts_again(db, end):
    job = given.running(db)
    db.write(lambda tx: lifecycle.request_cancel(tx, job.id))
    ends = {"again": lambda tx: lifecycle.settle(tx, job.id, 1, Again(Problem("job-raised"))),
            "lost": lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")),
            "handed back": lambda tx: lifecycle.hand_back(tx, job.id, 1)}
    assert db.write(ends[end]) == Status.CANCELLED


def test_work_that_finished_before_its_cancel_was_seen_wins(db):
    job = given.running(db)
    db.write(lambda tx: lifecycle.request_cancel(tx, job.id))
    assert db.write(lambda tx: lifecycle.settle(tx, job.id, 1, Succeeded("1"))) == Status.SUCCEEDED


def test_a_job_that_nobody_starts_in_time_fails(db):
    late = given.queued(db, start_by="2000-01-01T00:00:00.000Z")
    early = given.queued(db, start_by="2999-01-01T00:00:00.000Z")
    assert db.write(lambda tx: lifecycle.expire_queued(tx, early.id)) is None
    assert db.write(lambda tx: lifecycle.expire_queued(tx, late.id)) == Status.FAILED
    assert "never-started" in given.row_of(db, late.id).error


def test_every_visible_change_takes_the_next_version_and_rings(db):
    job = given.running(db)
    db.write(lambda tx: lifecycle.report(tx, job.id, 1, 10, "a"))
    db.write(lambda tx: lifecycle.request_cancel(tx, job.id))
    db.write(lambda tx: lifecycle.settle(tx, job.id, 1, Cancelled()))
    versions = [message["version"] for message in db.rung]
    assert len(versions) == 5 and versions == sorted(set(versions))
    assert versions[-1] == given.row_of(db, job.id).version


def test_a_beat_takes_no_version(db):
    job = given.running(db)
    db.write(lambda tx: lifecycle.beat(tx, job.id, 1))
    assert given.row_of(db, job.id) == job


def test_tallies_agree_with_the_jobs(db):
    given.settled(db)
    given.settled(db, Failed(Problem("drill-failed")), owner="bob")
    given.running(db, owner="bob")
    given.queued(db, owner="bob")
    counted = db.read().all("SELECT status, count(*) AS number FROM jobs GROUP BY status")
    found = {status: number for status, number in tallies.by_status(db.read()).items() if number}
    assert found == {row.status: row.number for row in counted}
    assert tallies.by_status(db.read(), "alice")["succeeded"] == 1


@pytest.mark.parametrize("outcome, status", [("succeeded", "ready"), ("partialSuccess", "ready"), ("failed", "failed"),
                                             ("cancelled", "cancelled")])
def test_the_resource_follows_its_job(db, outcome, status):
    job = given.settled(db, OUTCOMES[outcome], collection="reports", resource_fields='{"source":"x"}', resource_retention=60)
    row = db.read().one("SELECT * FROM resources")
    assert (row.status, row.job_id, job.resource) == (status, job.id, f"/v1/reports/{row.id}")
    assert json.loads(row.fields) == ({"source": "x", "n": 1} if status == "ready" else {"source": "x"})
    types = [event.type for event in db.read().all("SELECT type FROM events ORDER BY id")]
    assert (f"report.{status}" in types) == (status in ("ready", "failed"))


def test_a_late_workers_lines_are_dropped(db):
    job = given.running(db)
    db.write(lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")))
    given.claimed(db)
    for attempt, text in ((1, "late"), (2, "in time")):
        db.write(lambda tx: journal.write(tx, job.id, attempt, [("2026-01-01T00:00:00.000Z", text)]))
    assert [row.line for row in journal.read(db.read(), job.id)] == ["in time"]
