"""When an attempt is given up, and when not."""

import time

import pytest

from jobs import settings
from jobs.core import lifecycle, models
from jobs.db import Database
from jobs.errors import StorageUnavailable
from jobs.work.sweeper import Sweeper
from tests.core import given
from tests.stack import wait_for

LEASE = 0.6


class Meddled(Database):
    """A database in which something happens just before a write, or that does not take any."""

    before = None
    refuses = False

    def write(self, function, durable=True):
        if self.refuses:
            raise StorageUnavailable("as asked")
        before, self.before = self.before, None
        if before:
            super().write(before)
        return super().write(function, durable)


@pytest.fixture
def db(tmp_path, new_database):
    configuration = settings.load({}, data_dir=tmp_path, database_url=new_database())
    found = Meddled(configuration)
    models.prepare(found, configuration)
    yield found
    found.close()


def beats(db, job):
    return db.write(lambda tx: lifecycle.beat(tx, job.id, job.attempt))


def test_a_silent_attempt_is_given_up_and_a_beating_one_is_not(db):
    silent, beating = given.running(db), given.running(db)
    sweeper, began = Sweeper(db, LEASE), time.monotonic()
    wait_for(lambda: beats(db, beating) and sweeper.sweep(), what="the sweep")
    assert time.monotonic() - began > LEASE
    assert (given.row_of(db, silent.id).status, given.row_of(db, beating.id).status) == ("queued", "running")


def test_a_beat_at_the_last_moment_saves_the_attempt(db):
    job = given.running(db)
    sweeper = Sweeper(db, LEASE)
    sweeper.sweep()
    sweeper._still[job.id, job.attempt] = (0, LEASE)    # its time is up at the next look
    check = db.check

    def meddle():
        """Between the look at the leases and the end of the attempt."""
        check()
        db.before = lambda tx: lifecycle.beat(tx, job.id, job.attempt)

    db.check = meddle
    assert sweeper.sweep() == 0 and db.before is None
    assert given.row_of(db, job.id).status == "running"


def test_time_without_a_database_that_takes_beats_does_not_count(db):
    job = given.running(db)
    sweeper = Sweeper(db, LEASE)
    sweeper.sweep()
    db.refuses = True
    end = time.monotonic() + 2 * LEASE
    while time.monotonic() < end:
        with pytest.raises(StorageUnavailable):
            sweeper.sweep()
    db.refuses = False
    assert sweeper.sweep() == 0 and beats(db, job)
    assert given.row_of(db, job.id).attempt == 1


def test_time_in_which_the_sweeper_itself_stood_still_counts_little(db):
    job = given.running(db)
    sweeper = Sweeper(db, LEASE)
    sweeper.sweep()
    time.sleep(2 * LEASE)       # a machine that was frozen: nobody could beat, and nobody looked
    assert sweeper.sweep() == 0
    assert given.row_of(db, job.id).status == "running"
    wait_for(sweeper.sweep, what="the sweep")
