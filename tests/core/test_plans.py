"""A year of jobs slows nothing: on SQLite every everyday statement goes by an index, and none sorts or scans the jobs."""

import pytest

from jobs import settings
from jobs.core import audit, claim, cleanups, models, overview, reads
from jobs.core.states import TERMINAL
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

            def one(_, sql, **parameters):
                Reader().all(sql, **parameters)

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


@pytest.mark.parametrize(("wanted", "index"), [
    ({}, "SEARCH audit USING INTEGER PRIMARY KEY"), ({"act": "job.purge"}, "SEARCH audit USING INDEX audit_act"),
    ({"actor": "alice"}, "SEARCH audit USING INDEX audit_actor"), ({"subject": "/v1/jobs/1"}, "SEARCH audit USING INDEX audit_subject"),
    ({"owner": "alice"}, "SEARCH audit USING INDEX audit_owner")])
def test_acts_are_read_in_their_order(db, wanted, index):
    plans, reader = db.plans()
    audit.page(reader, 50, **wanted)
    assert plans[0].startswith(index) and not any("TEMP B-TREE" in plan for plan in plans), plans


def test_the_feed_follows_the_versions(db):
    for owner, index in ((None, "jobs_version"), ("alice", "jobs_owner_version")):
        plans, reader = db.plans()
        reads.changes(reader, 5, 50, owner=owner)
        assert len(plans) == 1 and plans[0].startswith(f"SEARCH jobs USING INDEX {index} "), plans


@pytest.mark.parametrize("owner", [None, "alice"])
@pytest.mark.parametrize("question", [
    lambda reader, owner: overview.running(reader, owner, 30),
    lambda reader, owner: overview.waiting(reader, owner, 12, "2026"),
    lambda reader, owner: overview.lately(reader, owner, tuple(TERMINAL), 8),
    lambda reader, owner: overview.leases(reader),
    lambda reader, owner: overview.ended_by_minute(reader, owner, "2026", "2027"),
    lambda reader, owner: overview.latest_spans(reader, owner, "2026"),
    lambda reader, owner: overview.history(reader, 5),
    lambda reader, owner: overview.attempts(reader, 5),
    lambda reader, owner: overview.log_tail(reader, 5, 300),
    lambda reader, owner: claim.taken(reader, "w"),
    lambda reader, owner: cleanups.waiting(reader),
], ids=lambda question: "-".join(question.__code__.co_names[1:]))
def test_a_glance_never_goes_through_the_jobs(db, question, owner):
    plans, reader = db.plans()
    question(reader, owner)
    assert plans and not [plan for plan in plans if plan.startswith("SCAN jobs")], plans
