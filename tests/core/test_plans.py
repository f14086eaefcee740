"""A year of jobs slows nothing: on SQLite every everyday statement goes by an index, and none sorts or scans the jobs."""

import pytest

from jobs import settings
from jobs.core import models, reads
from jobs.db import Database


class Explained(Database):
    """A database whose reader collects what SQLite plans to do."""

    def plans(self):
        found = []

        class Reader:
            dialect = self.dialect

            def all(_, sql, **parameters):
                found.extend(row.detail for row in self.read().all(f"EXPLAIN QUERY PLAN {sql}", **parameters))
                return []

        return found, Reader()


@pytest.fixture
def db(tmp_path):
    configuration = settings.load({}, data_dir=tmp_path)
    found = Explained(configuration)
    models.prepare(found, configuration)
    yield found
    found.close()


@pytest.mark.parametrize(("filters", "index"), [
    ({}, "SCAN jobs"), ({"before": 5}, "SEARCH jobs USING INTEGER PRIMARY KEY"),
    ({"owner": "alice"}, "SEARCH jobs USING INDEX jobs_owner"),
    ({"owner": "alice", "status": ("failed",)}, "SEARCH jobs USING INDEX jobs_owner"),
    ({"owner": "alice", "before": 5, "status": ("failed", "cancelled")}, "SEARCH jobs USING INDEX jobs_owner"),
    ({"status": ("failed",)}, "SEARCH jobs USING INDEX jobs_status"),
    ({"status": ("failed",), "before": 5}, "SEARCH jobs USING INDEX jobs_status"),
    ({"status": ("succeeded", "failed")}, "SCAN jobs"),
])
def test_pages_are_read_in_their_order(db, filters, index):
    """A scan here follows the ids, newest first, and stops when the page is full."""
    plans, reader = db.plans()
    reads.page(reader, 50, **filters)
    assert len(plans) == 1 and plans[0].startswith(index), plans


def test_the_feed_follows_the_versions(db):
    for owner, index in ((None, "jobs_version"), ("alice", "jobs_owner_version")):
        plans, reader = db.plans()
        reads.changes(reader, 5, 50, owner=owner)
        assert len(plans) == 1 and plans[0].startswith(f"SEARCH jobs USING INDEX {index} "), plans
