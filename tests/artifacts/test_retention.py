"""What has had its time goes, with its bytes, and nothing else does; on both stores and both databases."""

import os
import time

import pytest

from jobs.artifacts.leftovers import Leftovers
from jobs.artifacts.retention import Retention
from jobs.core import lifecycle, resources, submission, tombstones
from jobs.core.outcome import Failed, Succeeded
from jobs.errors import Problem
from tests.core.given import asked, queued

HOUR, DAY = 3600, 86400


@pytest.fixture(params=["local", "postgres"])
def kind(request):
    return request.param


everywhere = pytest.mark.parametrize("kind", ["local", "s3", "postgres"], indirect=True)


@pytest.fixture
def sweep(house, store):
    """Sweep once with nothing remembered; how many things went."""

    def sweep():
        retention, total = Retention(house.db, store, house.settings), Leftovers(house.db, store, house.settings).sweep()
        while number := retention.sweep():
            total += number
        return total

    return sweep


def reports(**changes):
    return dict(collection="reports", resource_retention=90 * DAY, retention=30 * DAY) | changes


def rows(house):
    return house.db.read().value("SELECT count(*) FROM artifacts")


@everywhere
def test_nothing_goes_before_its_time(house, sweep):
    kept = [house.upload(), house.leave(house.running())]
    job = house.running(**reports())
    kept += [house.leave(job), house.leave(job, {"a": b"b"})]
    house.settle(job)
    assert sweep() == 0
    assert all(house.get(row) and house.has_bytes(row) for row in kept)


@everywhere
def test_artifacts_live_as_long_as_their_job(house, sweep, clock_file):
    job = house.running(retention=DAY)
    file, folder = house.leave(job), house.leave(job, {"a/b": b"c"}, "hls")
    house.settle(job)
    clock_file(DAY - 60)
    assert sweep() == 0
    clock_file(DAY + 60)
    assert sweep() > 0
    assert house.get(file) is None and not house.has_bytes(file) and not house.has_bytes(folder) and rows(house) == 0


@everywhere
def test_artifacts_of_a_resource_outlive_the_job_and_go_with_the_resource(house, sweep, clock_file):
    job = house.running(**reports())
    left = house.leave(job)
    job = house.settle(job)
    clock_file(31 * DAY)
    sweep()
    assert house.db.read().value("SELECT purged_at FROM jobs WHERE id = :id", id=job.id)
    assert house.get(left) and house.has_bytes(left)
    clock_file(91 * DAY)
    sweep()
    assert not house.has_bytes(left) and rows(house) == 0
    assert resources.get(house.db.read(), "reports", job.resource_id) is None


def test_a_purge_keeps_the_resource_and_what_it_names(house, sweep):
    job = house.running(**reports())
    left = house.leave(job)
    house.settle(job)
    house.db.write(lambda tx: tombstones.purge(tx, job.id))
    sweep()
    assert house.get(left) and house.has_bytes(left)


def test_deleting_a_resource_takes_its_files_but_not_while_it_is_made(house, sweep):
    job = house.running(**reports())
    left = house.leave(job)
    assert not house.db.write(lambda tx: resources.delete(tx, job.resource_id))
    house.settle(job)
    assert house.db.write(lambda tx: resources.delete(tx, job.resource_id))
    sweep()
    assert not house.has_bytes(left) and rows(house) == 0


def test_what_a_failed_attempt_left_is_swept(house, sweep):
    job = house.running()
    left = house.leave(job)
    house.settle(job, Failed(Problem("job-raised")))
    assert sweep() == 1 and not house.has_bytes(left)


def test_an_upload_that_no_job_uses_expires(house, sweep, clock_file):
    row = house.upload(seconds=DAY)
    clock_file(DAY + 1)
    assert house.get(row) is None, "it is gone at its time, swept or not"
    sweep()
    assert not house.has_bytes(row)


@everywhere
def test_an_upload_stays_while_a_job_uses_it_and_goes_with_the_last_one(house, sweep, clock_file):
    row = house.upload(seconds=60)
    first, second = house.running(inputs=(row.id,)), house.running(inputs=(row.id,))
    clock_file(HOUR)
    sweep()
    assert house.get(row) and house.get(row).expires_at is None
    for job in (first, second):
        assert house.get(row) and house.has_bytes(row)
        house.settle(job)
        house.db.write(lambda tx, id=job.id: tombstones.purge(tx, id))
        sweep()
    assert house.get(row) is None and not house.has_bytes(row)


def test_an_upload_whose_job_was_purged_early_waits_for_its_own_time(house, sweep, clock_file):
    row = house.upload(seconds=DAY)
    job = house.running(inputs=(row.id,))
    house.settle(job)
    house.db.write(lambda tx: tombstones.purge(tx, job.id))
    sweep()
    assert house.get(row).expires_at == row.expires_at and house.has_bytes(row)
    clock_file(DAY + 1)
    sweep()
    assert not house.has_bytes(row)


def test_an_artifact_of_a_job_that_another_one_reads_still_goes_with_its_own(house, sweep):
    job = house.running()
    left = house.leave(job)
    house.settle(job)
    queued(house.db, inputs=(left.id,))
    house.db.write(lambda tx: tombstones.purge(tx, job.id))
    sweep()
    assert house.get(left) is None and not house.has_bytes(left)


def test_a_retry_goes_on_using_the_upload(house, sweep, clock_file):
    row = house.upload(seconds=60)
    job = house.running(inputs=(row.id,))
    house.settle(job, Failed(Problem("job-raised")))
    again = queued(house.db, retry_of=job.id)
    house.db.write(lambda tx: tombstones.purge(tx, job.id))
    clock_file(61)
    sweep()
    assert house.get(row) and house.has_bytes(row)
    house.db.write(lambda tx: lifecycle.request_cancel(tx, again.id))
    house.db.write(lambda tx: tombstones.purge(tx, again.id))
    sweep()
    assert not house.has_bytes(row)


def test_a_job_is_not_accepted_with_an_input_that_has_just_gone(house, sweep, clock_file):
    row = house.upload(seconds=60)
    clock_file(61)
    sweep()
    with pytest.raises(Problem) as refused:
        house.db.write(lambda tx: submission.accept(tx, asked(inputs=(row.id,))))
    assert refused.value.slug == "unknown-input"
    assert house.db.read().value("SELECT count(*) FROM jobs") == 0


def test_many_go_in_small_batches(house, sweep):
    job = house.running()
    house.leave(job)
    for number in range(250):
        house.run("""INSERT INTO artifacts (owner, kind, name, media_type, size, key, state, created_at)
                     VALUES ('a', 'file', 'x', 'text/plain', 1, :key, 'doomed', '')""", key=f"jobs/9/{number}")
    assert sweep() == 250 and rows(house) == 1


@pytest.mark.parametrize("kind", ["local"], indirect=True)
def test_one_that_cannot_be_deleted_holds_up_no_other(house, sweep):
    kept = house.leave(house.running())
    house.run("UPDATE artifacts SET state = 'doomed'")
    house.run("""INSERT INTO artifacts (owner, kind, name, media_type, size, key, state, created_at)
                 VALUES ('a', 'file', 'x', 'text/plain', 1, '../../etc', 'doomed', '')""")
    assert sweep() == 1
    assert not house.has_bytes(kept) and rows(house) == 1


@pytest.mark.parametrize("kind", ["local"], indirect=True)
def test_orphans_go_after_an_hour_and_what_has_a_row_never(house, sweep, store):
    named, folder = house.leave(house.running()), house.leave(house.running(), {"a": b"a"})
    for key in ("jobs/9/old", "uploads/x/old", "jobs/9/young"):
        store.put_file(house.made(b"x"), key)
    store.put_folder(house.made({"x/y": b"z"}), "jobs/8/old-folder")
    old = [named.key, folder.key, "jobs/9/old", "uploads/x/old", "jobs/8/old-folder"]
    for key in old:
        os.utime(house.settings.data_dir / "artifacts" / key, (time.time() - 2 * HOUR,) * 2)
    sweep()
    assert {leaf.key for leaf in store.leaves()} == {named.key, folder.key, "jobs/9/young"}


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_orphans_in_s3_are_found_by_their_age(house, sweep, store, monkeypatch):
    named = house.leave(house.running(), {"a": b"a", "b/c": b"d"})
    store.put_folder(house.made({"x": b"y"}), "jobs/8/orphan")
    assert sweep() == 0
    monkeypatch.setattr("jobs.artifacts.retention.ORPHANED_AFTER", 0)
    assert sweep() > 0
    assert {leaf.key for leaf in store.leaves()} == {named.key}


@pytest.mark.parametrize("kind", ["local"], indirect=True)
def test_leftovers_of_dead_processes_go_and_those_in_use_stay(house, sweep, store):
    job = house.running()
    work = house.settings.data_dir / "work"
    for path in (store.scratch / "upload-dead", store.scratch / "upload-live", work / f"{job.id}-1" / "x", work / "99-1" / "x",
                 work / "98-1" / "x", work / "97-kept" / "1", work / "96-kept" / "1"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    for path in (store.scratch / "upload-dead", work / f"{job.id}-1" / "x", work / f"{job.id}-1", work / "99-1" / "x", work / "99-1",
                 work / "97-kept" / "1", work / "97-kept"):
        os.utime(path, (time.time() - 2 * HOUR,) * 2)
    sweep()
    assert [path.name for path in store.scratch.iterdir()] == ["upload-live"]
    assert sorted(path.name for path in work.iterdir()) == sorted([f"{job.id}-1", "98-1", "96-kept"])


def test_a_resource_made_anew_shows_the_later_files_first(house):
    job = house.running(**reports())
    first = house.leave(job)
    job = house.settle(job, Succeeded("1", [{"part": "x", "detail": "y"}]))
    again = house.running(**reports(resource_id=job.resource_id, retry_of=job.id))
    second = house.leave(again)
    house.settle(again)
    from jobs.artifacts import records

    assert [row.id for row in records.of_resource(house.db.read(), job.resource_id)] == [second.id, first.id]
