"""What a horse decides by itself: which job is its own, and when it has served long enough."""

from contextlib import closing

import pytest

from jobs import settings
from jobs.core import models
from jobs.core.outcome import Failed, Succeeded
from jobs.db import Database
from jobs.errors import Problem, StorageUnknown
from jobs.work import process
from jobs.work.channel import Channel
from jobs.work.horse import JOBS, MEMORY, Horse
from jobs.work.job_type import Registry
from tests.core import given


class Mumbling(Database):
    """A database that commits its next write and does not say so."""

    mumbles = False

    def write(self, function, durable=True):
        result = super().write(function, durable)
        if self.mumbles:
            self.mumbles = False
            raise StorageUnknown("as asked")
        return result


@pytest.fixture
def db(tmp_path, new_database):
    configuration = settings.load({}, data_dir=tmp_path, database_url=new_database())
    with closing(Mumbling(configuration)) as made:
        models.prepare(made, configuration)
        made.configuration = configuration
        yield made


@pytest.fixture
def horse(db):
    ours, _theirs = Channel.pair()
    made = Horse(db.configuration, Registry([]), "default", "me", ours)
    made._db.close()
    made._db = db
    made.theirs = _theirs       # or the channel would be closed
    return made


def test_a_claim_that_may_have_been_committed_is_read_again(horse, db):
    first, second = given.queued(db), given.queued(db)
    db.mumbles = True
    owed, row = horse._claim()
    assert (owed, row.id, row.attempt, row.status) == (None, first.id, 1, "running")
    assert [each.id for each in db.read().all("SELECT job_id AS id FROM attempts")] == [first.id]
    assert given.row_of(db, second.id).status == "queued"
    assert horse._claim()[1].id == second.id        # the doubt is over


def test_one_that_was_not_committed_is_made_again(horse, db):
    horse._unsure = True
    job = given.queued(db)
    assert horse._claim()[1].id == job.id and not horse._unsure


def test_an_end_that_may_have_been_committed_is_not_made_twice(horse, db):
    row = given.running(db)
    db.mumbles = True
    horse._settle(row, Succeeded("1"), cleaned=False)
    ended = given.row_of(db, row.id)
    assert (ended.status, ended.result) == ("succeeded", "1")
    horse._settle(row, Failed(Problem("drill-failed")), cleaned=False)
    assert given.row_of(db, row.id) == ended
    assert db.read().value("SELECT count(*) FROM events WHERE type = 'job.succeeded'") == 1


def test_a_horse_retires_after_so_many_jobs_and_when_it_has_grown(horse, db):
    row = given.running(db)
    assert horse._worn(row) is None
    horse._jobs = JOBS
    assert horse._worn(row) == f"{JOBS} jobs"
    horse._jobs, horse._memory = 0, process.memory() - MEMORY - 1
    assert horse._worn(row) == f"it grew too much; the last job was {row.type} {row.id}"
