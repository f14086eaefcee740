"""Reading: the rendered job, pages, the feed, tombstones."""

import json

from jobs.core import lifecycle, reads, submission, tombstones
from jobs.core.outcome import Failed, Succeeded
from jobs.errors import Problem
from tests.core import given

BASE = "https://jobs.example.com/sub"


def shown(row):
    return json.loads(reads.render(row, BASE))


def test_a_fresh_job_is_shown_whole(db):
    job = shown(given.queued(db, tags='["nightly"]'))
    assert list(job) == ["id", "version", "type", "status", "progress", "stage", "eta", "priority", "payload", "tags", "callbackUrl",
                         "timeout", "attempt", "maxAttempts", "nextAttemptAt", "createdAt", "updatedAt", "startedAt", "heartbeatAt",
                         "finishedAt", "cancelRequestedAt", "notBefore", "expiresAt", "retryOf", "resource", "owner", "links"]
    assert (job["id"], job["payload"], job["tags"], job["progress"], job["attempt"]) == ("1", {"seconds": 1}, ["nightly"], 0, 0)
    assert set(job["links"]) == {"self", "events", "logs", "attempts", "artifacts", "result", "cancel"}


def test_links_hold_what_can_be_done_now(db):
    failed = shown(given.settled(db, Failed(Problem("drill-failed"))))
    succeeded = shown(given.settled(db))
    assert "retry" in failed["links"] and "cancel" not in failed["links"]
    assert not {"retry", "cancel"} & set(succeeded["links"])


def test_a_problem_has_an_absolute_type(db):
    job = shown(given.settled(db, Failed(Problem("drill-failed", "because"))))
    assert job["error"]["type"] == f"{BASE}/problems/drill-failed"
    assert "result" not in job


def test_big_payloads_are_left_out_of_lists_and_kept_whole(db):
    payload = json.dumps({"text": "x" * 10_000})
    job = given.queued(db, payload=payload)
    [listed] = reads.page(db.read(), 10)
    assert shown(listed)["truncated"] is True and "payload" not in shown(listed)
    assert shown(reads.get(db.read(), job.id))["payload"] == json.loads(payload)


def test_keyset_pages_lose_and_repeat_nothing(db):
    ids = db.write(lambda tx: [submission.accept(tx, given.asked()).job.id for _ in range(500)])
    found, before = [], None
    while rows := reads.page(db.read(), 37, before=before):
        found += [row.id for row in rows]
        before = found[-1]
    assert found == sorted(ids, reverse=True)


def test_filters(db):
    given.settled(db, Failed(Problem("drill-failed", "磁盘已满")), tags='["nightly","a%b"]')
    given.settled(db, Succeeded("1"), owner="bob", payload='{"title":"季度报告"}')
    reader = db.read()

    def ids(**wanted):
        return [row.id for row in reads.page(reader, 10, **wanted)]

    assert ids(status=("failed",)) == [1]
    assert ids(status=("failed", "succeeded")) == [2, 1]
    assert ids(owner="bob") == [2]
    assert ids(type=("other",)) == []
    assert ids(tag=("nightly", "a%b")) == [1]
    assert ids(tag=("night",)) == []
    assert ids(q="报告") == [2]
    assert ids(q="已满") == [1]
    assert ids(q="a%b") == [1] and ids(q="a_b") == []
    assert ids(ids=(2, 7)) == [2]


def test_clauses_ask_for_a_status_or_a_type_each(db):
    first, second, third = given.queued(db), given.queued(db, type="report"), given.queued(db, type="export")
    db.write(lambda tx: lifecycle.request_cancel(tx, second.id))

    def ids(*either):
        return [row.id for row in reads.page(db.read(), 10, either=either)]

    assert ids((("queued",), ())) == [third.id, first.id]
    assert ids((("cancelled",), ("export",))) == [third.id, second.id]
    assert ids((("cancelled",), ("export",)), (("queued",), ())) == [third.id]
    assert ids(((), ("none",))) == ids((("running",), ())) == []


def test_the_feed_tells_each_changed_job_once_in_commit_order(db):
    first, second = given.queued(db), given.queued(db)
    start = reads.latest(db.read())
    db.write(lambda tx: lifecycle.request_cancel(tx, second.id))
    given.claimed(db)
    db.write(lambda tx: lifecycle.report(tx, first.id, 1, 5, None))
    rows = reads.changes(db.read(), start, 10)
    assert [(row.id, row.status) for row in rows] == [(second.id, "cancelled"), (first.id, "running")]
    assert reads.changes(db.read(), start, 10, owner="bob") == []


def test_a_purged_job_leaves_a_tombstone_that_the_feed_tells_of(db):
    job = given.settled(db, Succeeded('"secret"'))
    db.write(lambda tx: tombstones.purge(tx, job.id))
    [row] = reads.changes(db.read(), job.version, 10)
    assert row.purged_at and row.result is None and "secret" not in json.dumps(given.row_of(db, job.id))
    assert reads.page(db.read(), 10) == []
    assert db.write(lambda tx: tombstones.purge(tx, job.id)) is None


def test_an_active_job_cannot_be_purged(db):
    job = given.queued(db)
    assert db.write(lambda tx: tombstones.purge(tx, job.id)) is None


def test_deleting_a_tombstone_moves_the_horizon(db):
    job = given.settled(db)
    tomb = db.write(lambda tx: tombstones.purge(tx, job.id))
    assert db.write(lambda tx: tombstones.forget(tx, 3600)) == 0
    assert db.write(lambda tx: tombstones.forget(tx, -1)) == 1
    assert reads.horizon(db.read()) == tomb.version
    assert given.queued(db).id > job.id
