"""Jobs in the state that a test needs."""

from jobs.core import claim, lifecycle, submission
from jobs.core.outcome import Succeeded
from jobs.core.submission import Submission


def asked(**changes) -> Submission:
    """A submission of an ordinary job."""
    return Submission(**dict(type="demo.drill", owner="alice", queue="default", payload='{"seconds":1}', timeout=60, retention=3600,
                             max_attempts=3, start_within=60) | changes)


def queued(db, **changes):
    """A fresh job's row."""
    return db.write(lambda tx: submission.accept(tx, asked(**changes))).job


def claimed(db, queue="default", worker="w1", limits=None):
    """The row of the next job, started, or None."""
    return db.write(lambda tx: claim.claim_next(tx, queue, worker, limits))


def running(db, **changes):
    """A fresh job, started."""
    job = queued(db, **changes)
    row = claimed(db)
    assert row.id == job.id
    return row


def settled(db, outcome=Succeeded("1"), **changes):
    """A fresh job, started and settled; its row as it then stands."""
    row = running(db, **changes)
    db.write(lambda tx: lifecycle.settle(tx, row.id, row.attempt, outcome))
    return row_of(db, row.id)


def row_of(db, job_id):
    """The job as it stands."""
    return db.read().one("SELECT * FROM jobs WHERE id = :id", id=job_id)
