"""Clean-ups that are owed."""

import pytest

from jobs.core import claim, cleanups, lifecycle, tombstones
from jobs.core.outcome import Again, Cancelled, Failed, Succeeded
from jobs.errors import Problem
from tests.core import given


def started(db, **changes):
    """A running job of a type with a clean-up."""
    given.queued(db, **changes)
    return db.write(lambda tx: claim.claim_next(tx, "default", "w1", cleaned={"demo.drill"}))


def settle(db, job, outcome):
    db.write(lambda tx: lifecycle.settle(tx, job.id, job.attempt, outcome))


@pytest.mark.parametrize(("outcome", "waiting"), [
    (Succeeded("1"), {}), (Succeeded("1", [{"part": "a", "detail": "b"}]), {}),
    (Failed(Problem("drill-failed")), {"default": 1}), (Cancelled(), {"default": 1}), (Again(Problem("job-raised")), {}),
])
def test_an_unsuccessful_end_makes_it_due_once_the_job_has_ended(db, outcome, waiting):
    job = started(db)
    assert cleanups.waiting(db.read()) == {}
    settle(db, job, outcome)
    assert cleanups.waiting(db.read()) == waiting


def test_types_without_one_owe_nothing(db):
    job = given.settled(db, Failed(Problem("drill-failed")))
    assert cleanups.waiting(db.read()) == {} and cleanups.before(db.read(), job.id, 9) == []


def test_the_next_attempt_finds_those_before_it(db):
    job = started(db)
    db.write(lambda tx: lifecycle.lose(tx, job.id, 1, Problem("worker-lost")))
    assert db.write(lambda tx: cleanups.take_next(tx, "default")) is None, "the job's next attempt will see to it"
    db.write(lambda tx: claim.claim_next(tx, "default", "w2", cleaned={"demo.drill"}))
    assert cleanups.before(db.read(), job.id, 2) == [1]
    db.write(lambda tx: cleanups.drop(tx, job.id, 1))
    assert cleanups.before(db.read(), job.id, 2) == []


def test_one_is_taken_by_one_and_due_again_later_until_it_is_given_up(db):
    job = started(db)
    settle(db, job, Failed(Problem("drill-failed")))
    for number in range(cleanups.TRIES):
        row = db.write(lambda tx: cleanups.take_next(tx, "default"))
        assert (row.id, row.attempt) == (job.id, 1)
        assert db.write(lambda tx: cleanups.take_next(tx, "default")) is None
        db.write(lambda tx: tx.run("UPDATE cleanups SET due_at = :now", now=tx.now))
    assert db.read().value("SELECT count(*) FROM cleanups") == 0


def test_a_purged_job_owes_nothing(db):
    job = started(db)
    settle(db, job, Failed(Problem("drill-failed")))
    db.write(lambda tx: tombstones.purge(tx, job.id))
    assert db.read().value("SELECT count(*) FROM cleanups") == 0
