"""The source `jobs` on both of the server's own databases."""

import json

import pytest

from jobs import clock
from jobs.artifacts.store import open_store
from jobs.core import submission
from jobs.core.submission import Submission
from jobs.webhooks import models as _tables_of_callbacks  # noqa: F401 - the dispatcher looks into them
from tests.work.house import House


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request, tmp_path):
    given = {"database_url": request.getfixturevalue("postgres_url")} if request.param == "postgresql" else {}
    with House(tmp_path, lease="60", grace="10m", **given) as house:
        house.start("dispatcher")
        house.start("worker")
        yield house


def export(house, query, **params):
    """The rows that the source gives to Alice."""
    job = house.finished(house.submit("report.export", source="jobs", query=query, format="jsonl", params=params), 60)
    assert job.status == "succeeded", job.error
    key = house.db.read().value("SELECT key FROM artifacts WHERE job_id = :id", id=job.id)
    return [json.loads(line) for line in open_store(house.settings).open(key).read().splitlines()]


def test_all_failed_and_by_type(house):
    ids = [house.submit("demo.drill", max_attempts=1, owner=owner, seconds=0, **payload) for owner, payload in [
        ("alice", {"value": 1}), ("alice", {"fail": "=as asked"}), ("bob", {"value": 2})]]
    first, failed, foreign = map(house.finished, ids)

    drills = export(house, "all", type="demo.drill")
    assert drills[0] == {
        "id": first.id, "type": "demo.drill", "status": "succeeded", "owner": "alice", "queue": "default",
        "priority": "normal", "tags": "[]", "attempts": 1, "created_at": f"{first.created_at[:-1]}000Z",
        "started_at": f"{first.started_at[:-1]}000Z", "finished_at": f"{first.finished_at[:-1]}000Z", "resource": None,
        "retry_of": None, "problem": None}
    assert [row["id"] for row in drills] == [first.id, failed.id], "without a word about it: the owner's own"
    assert [row["id"] for row in export(house, "all", type="demo.drill", owner="*")] == ids
    assert [row["id"] for row in export(house, "all", since=foreign.created_at, owner="bob")] == [foreign.id]
    [row] = export(house, "failed")
    assert (row["id"], row["problem"], row["detail"]) == (failed.id, "drill-failed", "=as asked")
    [row] = export(house, "by-type", type="demo.drill", owner="*")
    assert row == {"type": "demo.drill", "jobs": 3, "queued": 0, "running": 0, "succeeded": 2, "failed": 1, "cancelled": 0,
                   "partial_success": 0, "first_created_at": f"{first.created_at[:-1]}000Z",
                   "last_created_at": f"{foreign.created_at[:-1]}000Z"}
    assert export(house, "by-type", type="no.such") == []


def test_pages_follow_each_other_without_loss_or_repeat(house):
    asked = Submission(type="test.parked", owner="alice", queue="nobody", payload="{}", timeout=60, retention=600,
                       max_attempts=1, start_within=600, start_by=clock.after(600))
    ids = house.db.write(lambda tx: [submission.accept(tx, asked).job.id for _ in range(1100)])
    assert [row["id"] for row in export(house, "all", type="test.parked")] == ids
