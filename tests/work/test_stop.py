"""Cancel, time-out, and what a job leaves running."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.work.house import House, alive, wait_for


def noted(path, number=1):
    """The pids that a handler has noted, once there are so many."""
    words = wait_for(lambda: path.exists() and len(text := path.read_text().splitlines(True)) >= number and text,
                     what="the handler's note")
    return [int(word) for word in words]


def test_the_horse_survives_a_cooperative_cancel(patient):
    def pid():
        return json.loads(patient.finished(patient.submit("test.pid")).result)["pid"]
    before = pid()
    id = patient.submit("demo.drill", seconds=600, steps=6000)
    patient.running(id)
    patient.cancel(id)
    assert patient.finished(id).status == "cancelled"       # at its next report
    assert pid() == before


def test_a_drill_that_ignores_the_cancel_is_killed_after_the_grace(shared):
    id = shared.submit("demo.drill", seconds=60, steps=600, ignoreCancel=True)
    shared.running(id)
    since = time.monotonic()
    shared.cancel(id)
    assert shared.finished(id).status == "cancelled"
    assert time.monotonic() - since > 0.9  # the grace is 1 s


def test_a_forced_cancel_takes_every_descendant_along(shared, tmp_path):
    path = tmp_path / "pids"
    id = shared.submit("test.children", path=str(path), timeout=600)
    pids = noted(path, 4)
    assert all(map(alive, pids))
    shared.cancel(id)
    assert shared.finished(id).status == "cancelled"
    assert not any(map(alive, pids))


def test_a_time_out_takes_every_descendant_along(shared, tmp_path):
    path = tmp_path / "pids"
    id = shared.submit("test.children", path=str(path), timeout=2, max_attempts=1)
    assert shared.finished(id).status == "failed" and shared.error(id)["type"] == "/problems/job-timed-out"
    wait_for(lambda: not any(map(alive, noted(path))), what="the end of all that it had the time to start")


def test_a_killed_horse_takes_every_descendant_along(shared, tmp_path):
    path = tmp_path / "pids"
    id = shared.submit("test.children", path=str(path), timeout=600, max_attempts=1)
    pids = noted(path, 4)
    os.kill(pids[0], signal.SIGKILL)
    assert shared.finished(id).status == "failed" and shared.error(id)["type"] == "/problems/worker-crashed"
    assert not any(map(alive, pids))


def test_a_worker_that_must_stop_takes_every_descendant_along(house, tmp_path):
    house.start("dispatcher")
    worker, path = house.start("worker"), tmp_path / "pids"
    id = house.submit("test.children", path=str(path), timeout=600)
    pids = noted(path, 4)
    assert house.stop(worker) == 0
    assert house.job(id).status == "queued" and not any(map(alive, pids))


def test_a_second_signal_ends_the_patience_of_a_stopping_worker(tmp_path, new_database):
    with House(tmp_path, drain="1h", database_url=new_database()) as house:
        house.start("dispatcher")
        worker, path = house.start("worker"), tmp_path / "pids"
        id = house.submit("test.sleep", path=str(path))
        house.running(id)
        worker.send_signal(signal.SIGTERM)

        def again():    # not at once: that would be the same stop, sent by two
            worker.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            return worker.poll() is not None

        wait_for(again, what="its end")
        assert house.job(id).status == "queued"     # the exit code may be that of a signal while Python itself ends


@pytest.mark.parametrize("then", ["poll", "return"])
def test_what_a_job_leaves_running_is_killed(shared, tmp_path, then):
    path = tmp_path / "pids"
    id = shared.submit("test.children", path=str(path), then=then)
    horse, *children = noted(path, 4)
    if then == "poll":
        shared.cancel(id)
    shared.finished(id)
    wait_for(lambda: not any(map(alive, children)), what="the children's end")
    wait_for(lambda: not alive(horse), what="the horse to retire")
    assert "test.children" in shared.text() and "3 child processes" in shared.text()


@pytest.mark.parametrize("how", ["cwd", "environment", "umask", "signals", "threads", "files"])
def test_a_horse_that_a_job_changed_retires(shared, how):
    id = shared.submit("test.leak", how=how)
    horse = json.loads(shared.finished(id).result)
    wait_for(lambda: not alive(horse), what="the horse to retire")
    names = {"cwd": "working directory", "signals": "signal handlers", "files": "open files"}
    wait_for(lambda: f"test.leak {id} left changed: {names.get(how, how)}" in shared.text(), what="the line in the log")


def sockets(pid):
    """How many a process has open."""
    return sum(os.readlink(file).startswith("socket:") for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what another process has open")
def test_a_later_horse_holds_no_connection_of_its_worker(house):
    house.start("dispatcher"), house.start("worker")
    pid = lambda type_, **given: json.loads(house.finished(house.submit(type_, **given)).result)     # noqa: E731
    first = pid("test.pid")["pid"]
    held = sockets(first)
    assert pid("test.leak", how="umask") == first
    second = pid("test.pid")["pid"]
    assert second != first and sockets(second) == held


def test_the_clean_up_runs_after_a_cancel(shared, tmp_path):
    for how in ("poll", "sleep"):
        path = tmp_path / how
        id = shared.submit("test.undone", path=str(path), how=how)
        wait_for(path.exists, what="the handler")
        shared.cancel(id)
        assert shared.finished(id).status == "cancelled"
        wait_for(lambda: f"undo {id}:1" in path.read_text(), what="the clean-up")


def test_the_time_out_is_no_exception_and_a_c_loop_is_killed(house, tmp_path):
    house.start("dispatcher")
    jobs = {}
    for how in ("exception", "everything", "c-loop"):
        house.start("worker")
        jobs[how] = house.submit("test.stubborn", path=str(tmp_path / how), how=how, timeout=1, max_attempts=1)
    for id in jobs.values():
        assert house.finished(id).status == "failed"
        assert house.error(id)["type"] == "/problems/job-timed-out"
    put_down = lambda how: f"job {jobs[how]} (test.stubborn), attempt 1: the horse was put down" in house.text()  # noqa: E731
    wait_for(lambda: put_down("everything") and put_down("c-loop"), what="the log to tell of the others")
    assert not put_down("exception")    # that was enough
    assert not any(alive(pid) for how in ("everything", "c-loop") for pid in noted(tmp_path / how))


def test_five_cancels_in_a_row(house):
    house.start("dispatcher")
    worker = house.start("worker")
    for _ in range(20):
        id = house.submit("demo.drill", seconds=60, steps=600)
        house.running(id)
        for _ in range(5):
            house.cancel(id)
            time.sleep(0.001)
        assert house.finished(id).status == "cancelled"
    assert worker.poll() is None and house.text().count("serves default") == 1


def test_a_killed_horse_costs_an_attempt(house, tmp_path):
    house.start("dispatcher")
    worker = house.start("worker")
    path = tmp_path / "notes"
    id = house.submit("test.sleep", path=str(path), how="first")
    wait_for(lambda: path.exists() and path.read_text(), what="the handler")
    os.kill(int(path.read_text().split(":")[2]), signal.SIGKILL)
    wait_for(lambda: house.attempts(id)[0].outcome == "requeued", what="the parent to settle")
    assert json.loads(house.attempts(id)[0].error)["type"] == "/problems/worker-crashed"
    assert house.finished(id).attempt == 2 and worker.poll() is None


def test_an_idle_horse_that_dies_is_replaced(house):
    house.start("dispatcher")
    worker = house.start("worker")
    [horse] = house.horses(worker.pid)
    os.kill(horse, signal.SIGKILL)
    assert house.finished(house.submit("test.pid")).status == "succeeded"
