"""Workers and horses that die, stop, or are told to."""

import json
import os
import random
import signal
import time

import pytest

from tests.work.house import alive, wait_for


def started(path):
    """The (job, attempt, pid) of each start that a test.sleep noted."""
    wait_for(lambda: path.exists() and path.read_text().strip(), what="the handler's note")
    return [tuple(map(int, line.split(":"))) for line in path.read_text().split() if not line.endswith("done")]


def test_a_busy_worker_that_is_killed_takes_its_horse_along(house, tmp_path):
    worker = house.start("worker")
    id = house.submit("test.sleep", path=str(tmp_path / "notes"), seconds=1)
    [(_, _, horse)] = started(tmp_path / "notes")
    house.stop(worker, signal.SIGKILL)
    wait_for(lambda: not alive(horse), what="the horse's end")
    house.start("worker")
    job = house.finished(id)
    assert (job.status, job.attempt) == ("succeeded", 2)
    lost = house.attempts(id)[0]
    assert (lost.outcome, json.loads(lost.error)["type"]) == ("requeued", "/problems/worker-lost")


def test_a_program_dies_with_a_killed_worker(house, tmp_path):
    worker = house.start("worker")
    pid = tmp_path / "pid"
    script = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    house.submit("test.process", argv=["-c", script], max_attempts=1)
    wait_for(lambda: pid.exists() and pid.read_text(), what="the program")
    house.stop(worker, signal.SIGKILL)
    wait_for(lambda: not alive(int(pid.read_text())), what="the program's end")


def test_the_last_lost_attempt_fails_the_job(house, tmp_path):
    worker = house.start("worker")
    id = house.submit("test.sleep", path=str(tmp_path / "notes"), max_attempts=1)
    started(tmp_path / "notes")
    house.stop(worker, signal.SIGKILL)
    assert house.finished(id).status == "failed"
    assert house.error(id)["type"] == "/problems/worker-lost"


def test_a_killed_idle_worker_leaves_no_ghost_that_eats_tickets(house):
    house.stop(house.start("worker"), signal.SIGKILL)
    house.start("worker")
    assert house.finished(house.submit("test.pid")).status == "succeeded"


def test_a_stopping_worker_lets_a_short_job_end(patient):
    worker = patient.start("worker")
    id = patient.submit("demo.drill", seconds=0.5)
    patient.running(id)
    assert patient.stop(worker) == 0
    assert (patient.job(id).status, patient.job(id).attempt) == ("succeeded", 1)


def test_a_stopping_worker_hands_a_long_job_back(make_house, tmp_path):
    house = make_house(drain="1", lease="10m")      # not by the sweeper
    worker = house.start("worker")
    id = house.submit("test.sleep", path=str(tmp_path / "notes"), how="first", seconds=600, max_attempts=1)
    [(_, _, horse)] = started(tmp_path / "notes")
    assert house.stop(worker) == 0
    job = house.job(id)
    assert (job.status, job.attempt, job.max_attempts) == ("queued", 1, 2) and not alive(horse)
    house.start("worker")
    assert (house.finished(id).status, house.job(id).attempt) == ("succeeded", 2)


def test_an_interrupted_worker_says_130(house):
    assert house.stop(house.start("worker"), signal.SIGINT) == 130


def test_stopping_at_any_moment_of_a_claim_strands_nothing(patient):
    for pause in (0, 0.003, 0.006):
        worker = patient.start("worker")
        id = patient.submit("demo.drill", seconds=0.2)
        time.sleep(pause)
        assert patient.stop(worker) == 0
        assert patient.job(id).status in ("queued", "succeeded")
    patient.start("worker")
    wait_for(lambda: not patient.db.read().value("SELECT 1 FROM jobs WHERE status IN ('queued', 'running')"), what="all jobs")
    assert patient.db.read().value("SELECT max(attempt) FROM jobs") == 1


@pytest.mark.parametrize("whole", [False, True])
def test_a_worker_that_slept_through_its_lease_writes_nothing(house, tmp_path, whole):
    first = house.start("worker")
    id = house.submit("test.sleep", path=str(tmp_path / "notes"), how="first")
    [(_, _, horse)] = started(tmp_path / "notes")
    stopped = [first.pid, horse] if whole else [first.pid]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: house.attempts(id)[0].outcome == "requeued", what="the sweeper")
    house.start("worker")
    job = house.finished(id)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not alive(horse), what="the late horse to be put down")
    assert (job.status, job.attempt) == ("succeeded", 2)
    assert [row.outcome for row in house.attempts(id)] == ["requeued", "succeeded"]
    assert first.poll() is None
    house.finished(house.submit("test.pid"))
    assert house.job(id).version == job.version


def test_horses_killed_at_random_lose_and_double_nothing(house, tmp_path):
    worker = house.start("worker")
    notes = tmp_path / "notes"
    seed = 20261130
    chance = random.Random(seed)
    ids = [house.submit("test.pid", path=str(notes), max_attempts=20) for _ in range(60)]
    for _ in range(12):
        time.sleep(chance.uniform(0.01, 0.1))
        for horse in house.horses(worker.pid):
            try:
                os.kill(horse, signal.SIGKILL)
            except ProcessLookupError:
                pass
    for id in ids:
        assert house.finished(id).status == "succeeded"
    done = notes.read_text().split()
    assert len(done) == len(set(done))
    attempts = {f"{id}:{row.attempt}" for id in ids for row in house.attempts(id)}
    assert set(done) <= attempts
    assert {f"{id}:{house.job(id).attempt}" for id in ids} <= set(done)


def test_another_dispatcher_takes_the_lead(house):
    second = house.start("dispatcher")
    house.start("worker")
    assert house.finished(house.submit("test.pid")).status == "succeeded"
    house.stop(house.dispatcher, signal.SIGKILL)
    assert house.finished(house.submit("test.pid")).status == "succeeded"
    assert house.stop(second) == 0


def test_a_job_that_nobody_starts_fails(house):
    id = house.submit("test.pid", start_within=1)
    assert house.finished(id).status == "failed"
    assert house.error(id)["type"] == "/problems/never-started"


def test_the_next_attempt_cleans_up_after_a_lost_one(house, tmp_path):
    worker = house.start("worker")
    path = tmp_path / "notes"
    id = house.submit("test.undone", path=str(path), how="sleep")
    wait_for(lambda: path.exists() and path.read_text(), what="the handler")
    house.stop(worker, signal.SIGKILL)
    house.start("worker")
    assert house.finished(id).status == "succeeded"
    assert path.read_text().splitlines() == [f"do {id}:1", f"undo {id}:1", f"do {id}:2"]
