"""The whole server on PostgreSQL, whose connections are cut while its processes are killed."""

import tempfile
import threading
from pathlib import Path

import pytest

from tests.faults import books
from tests.faults.storm import TYPES, Storm
from tests.stack import Stack, wait_for

SEED, SECONDS, JOBS = 8202, 10, 60


@pytest.fixture
def stack(postgres_url):
    with tempfile.TemporaryDirectory(prefix="acc-") as folder:  # short, for Redis's socket
        with Stack(folder, workers="2", longest_turn="4", job_modules=TYPES, database_url=postgres_url) as server:
            yield server


@pytest.mark.postgres
def test_no_accepted_job_is_lost_stuck_or_settled_twice(stack, postgres_url):
    import psycopg

    over, cuts = threading.Event(), []

    def cut():
        with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as operator:
            while not over.wait(0.7):
                cuts.append(operator.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                             "WHERE datname = current_database() AND pid <> pg_backend_pid()").fetchone()[0])

    knife, storm = threading.Thread(target=cut), Storm(stack, SEED, stack.folder / "notes")
    knife.start()
    try:
        storm.rage(SECONDS, JOBS, flushes=1)
    finally:
        over.set()
        knife.join()
    database = books.open_books(stack)
    try:
        wait_for(lambda: not books.unfinished(database.read()), 120, "all jobs to end")
        books.check(database.read(), storm.promised, Path(stack.folder / "notes").read_text().split())
    except AssertionError as error:
        raise AssertionError(f"{error}\n{stack.output()[-6000:]}") from None
    finally:
        database.close()
    assert len(storm.promised) == JOBS and sum(cuts) > 5
