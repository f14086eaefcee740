"""What handlers can do with `job`."""

import hashlib
import json
import time

import pytest

from jobs.artifacts.store import open_store
from jobs.doorbell import Doorbell
from jobs.work.meter import Meter
from tests.work.house import TERMINAL, House, wait_for


def test_progress_never_falls_and_stays_below_100(shared, tmp_path):
    id = shared.submit("test.progress", how="backwards", path=str(tmp_path / "seen"))
    for done, progress in ((10, 10), (60, 60), (30, 60), (200, 99)):
        written = lambda: (job := shared.job(id)).stage == f"at {done}" and job      # noqa: E731, B023
        assert wait_for(written, what=f"report {done}").progress == progress
        (tmp_path / f"seen-{done}").touch()
    assert (shared.finished(id).status, shared.job(id).progress) == ("failed", 99)


def test_unknown_length_is_null_and_lives(shared):
    id = shared.submit("test.progress", how="unknown")
    shared.running(id)
    wait_for(lambda: shared.job(id).progress is None, what="unknown progress")
    first = shared.job(id)
    later = wait_for(lambda: (job := shared.job(id)).heartbeat_at > first.heartbeat_at and job, what="a sign of life")
    assert later.version > first.version and later.progress is None
    shared.cancel(id)
    shared.finished(id)


def test_a_million_reports_cost_little(shared):
    assert shared.finished(shared.submit("test.progress", how="fast")).progress == 99


def test_the_last_report_before_a_silence_arrives(shared):
    id = shared.submit("test.progress", how="burst")
    wait_for(lambda: shared.job(id).progress == 50 and shared.job(id).stage == "half", what="the report")
    shared.cancel(id)
    job = shared.finished(id)
    assert (job.status, job.progress) == ("cancelled", 50)


def test_progress_is_told_before_it_is_written(shared):
    bell = Doorbell(shared.settings.redis_url).listen()
    wait_for(lambda: bell.get(1), what="the subscription")
    id = shared.submit("demo.drill", seconds=1.5, steps=60)
    heard, began = [], time.monotonic()
    while not heard or heard[-1].get("status") not in TERMINAL:
        message = bell.get(1)
        if message and message.get("id") == id:
            heard.append(message)
    quick = [message for message in heard if message["version"] is None]
    assert 2 <= len(quick) <= (time.monotonic() - began) * 10 + 2
    progress = [message["progress"] for message in heard if message["status"] == "running"]
    assert progress == sorted(progress) and heard[-1]["progress"] == 100
    assert {"id", "version", "status", "progress", "stage", "attempt", "owner"} <= set(quick[0])
    bell.close()


@pytest.mark.parametrize(("calls", "expected"), [
    ([(1, 3), (2, 3), (3, 3)], [33, 66, 99]), ([(5, 10), (2, 10)], [50]), ([(1, None), (5, 10), (6, None)], [None, 50]),
    ([(-5, 10), (1, 0), (1, 10)], [None, 10]), ([(0, 7)], [])])
def test_the_meter(calls, expected):
    meter = Meter()
    told = [change["progress"] for done, total in calls if (change := meter.move(done, total, None))]
    assert told == expected


def test_a_program_runs_with_its_lines_and_errors(shared):
    script = "import sys; print('one'); print('two', end=''); print('careful', file=sys.stderr)"
    id = shared.submit("test.process", how="lines", argv=["-c", script])
    job = shared.finished(id)
    told = json.loads(job.result)
    assert (told["lines"], told["returncode"], told["errors"]) == (["one", "two"], 0, "careful")
    assert shared.lines(id) == ["careful"]
    wait_for(lambda: not (shared.settings.data_dir / "work" / f"{id}-1").exists(), what="the folder to be removed")


def test_a_program_that_fails_fails_the_attempt(shared):
    id = shared.submit("test.process", argv=["-c", "raise SystemExit('no good')"], max_attempts=1)
    assert shared.finished(id).status == "failed"
    assert shared.error(id)["detail"].startswith("ProcessFailed: python ended with 1: no good")


def test_a_cancelled_program_is_killed(patient, tmp_path):
    pid = tmp_path / "pid"
    id = patient.submit("test.process", argv=["-c", f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"])
    wait_for(lambda: pid.exists() and pid.read_text(), what="the program")
    patient.cancel(id)
    assert patient.finished(id).status == "cancelled"


def test_what_a_handler_says_is_made_harmless(shared):
    id = shared.submit("test.process", argv=["-c", "import sys; sys.stdout.buffer.write(b'nul\\x00 \\xff bad\\n' + b'x' * 9000)"])
    shared.finished(id)
    lines = shared.lines(id)
    assert lines[0] == "nul\ufffd \ufffd bad" and len(lines[1]) == 4000 and lines[1].endswith("…")


def test_the_log_has_an_end(shared):
    id = shared.submit("demo.drill", seconds=0, logLines=25_000, steps=1)
    assert shared.finished(id).status == "succeeded"
    lines = shared.lines(id)
    assert len(lines) == 20_000 and lines[-1].startswith("(The log ends here")


def rows(house, id, state="whole"):
    return house.db.read().all("SELECT * FROM artifacts WHERE job_id = :id AND state = :state ORDER BY id", id=id, state=state)


@pytest.mark.parametrize(("how", "content"), [(None, b"0123456789"), ("seek", b"X123456789")])
def test_artifacts_appear_whole(shared, how, content):
    id = shared.submit("test.files", how=how)
    told = json.loads(shared.finished(id).result)
    found = rows(shared, id)
    assert [(row.name, row.kind, row.size) for row in found] == [("naïve 名.csv", "file", 5), ("raw.bin", "file", 10), ("pages", "folder", 4)]
    assert found[1].sha256 == hashlib.sha256(content).hexdigest()
    assert told == [[str(row.id), f"/v1/artifacts/{row.id}", row.link, row.link_expires_at] for row in found]
    assert open_store(shared.settings).local_path(found[1].key).read_bytes() == content


@pytest.mark.parametrize("how", ["raise", "fail-late"])
def test_an_attempt_that_failed_leaves_no_artifact(shared, how):
    id = shared.submit("test.files", how=how)
    assert shared.finished(id).status == "failed" and rows(shared, id) == []


def test_inputs_are_the_owners_only(shared):
    id = shared.submit("test.files")
    shared.finished(id)
    number = rows(shared, id)[0].id
    for source in (number, str(number), f"/v1/artifacts/{number}/content", f"{shared.settings.base_url}/v1/artifacts/{number}"):
        assert json.loads(shared.finished(shared.submit("test.files", how="read", source=source)).result) == "a,b\n"
    for source, owner in ((number, "mallory"), (number + 1000, "alice"), ("file:///etc/passwd", "alice"), ("../x", "alice")):
        refused = shared.submit("test.files", how="read", source=source, owner=owner)
        assert shared.finished(refused).status == "failed"
        assert shared.error(refused)["type"] == "/problems/unknown-input"


def test_isolated_jobs_share_nothing(tmp_path):
    with House(tmp_path, isolate="1") as house:
        house.start("dispatcher")
        house.start("worker")
        pids = {json.loads(house.finished(house.submit("test.pid")).result)["pid"] for _ in range(3)}
        assert len(pids) == 3 and "retires" not in house.text().replace("INFO", "")
