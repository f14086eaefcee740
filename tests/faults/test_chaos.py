"""Everything at once: whatever is killed, every accepted job ends once.

Sixty seconds of storm and 500 jobs, in four parts: three fixed seeds and a fresh one, which the report of a failure names.
"""

import os
import signal
import struct
import tempfile
import threading
import time
from pathlib import Path

import pytest
import requests

from tests.faults import books
from tests.faults.storm import TYPES, Storm
from tests.stack import Stack, alive, wait_for

FRESH = int.from_bytes(os.urandom(4))
SECONDS, JOBS = 15, 126


@pytest.fixture(scope="module")
def stack():
    with tempfile.TemporaryDirectory(prefix="acc-") as folder:  # short, for Redis's socket
        with Stack(folder, workers="2", longest_turn="4", job_modules=TYPES) as server:
            yield server


@pytest.fixture(scope="module")
def promised():
    """The ids of all 202 so far."""
    return set()


def settle(stack, promised, notes, seconds=120):
    """Wait until nothing runs, then look at the books."""
    database = books.open_books(stack)
    try:
        wait_for(lambda: not books.unfinished(database.read()), seconds, "all jobs to end")
        books.check(database.read(), promised, notes.read_text().split())
    except AssertionError as error:
        left = database.read().all("SELECT id, status, attempt, max_attempts, due_at, updated_at FROM jobs "
                                   "WHERE status IN ('queued', 'running')")
        raise AssertionError(f"{error}\n{left}\n{stack.output()[-6000:]}") from None
    finally:
        database.close()


@pytest.mark.parametrize("seed", [8202, 20261130, 4, pytest.param(FRESH, id="fresh")])
def test_no_accepted_job_is_lost_stuck_or_settled_twice(stack, promised, seed):
    print(f"seed {seed}")
    storm = Storm(stack, seed, stack.folder / "notes")
    storm.rage(SECONDS, JOBS)
    promised |= storm.promised
    print("; ".join(storm.blows))
    assert len(storm.promised) == JOBS
    settle(stack, promised, stack.folder / "notes")


def holder(stack):
    """Who holds the turn to write, as noted."""
    return struct.unpack("=qq", (stack.data / "turn.lock").read_bytes()[:16])


def stop_in_turn(stack, among):
    """Stop one of these processes at a moment at which it holds the turn to write; its pid."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        noted = holder(stack)
        if noted[0] not in among():
            continue
        os.kill(noted[0], signal.SIGSTOP)
        time.sleep(0.05)
        if holder(stack) == noted:
            return noted[0]
        os.kill(noted[0], signal.SIGCONT)
    raise AssertionError("nobody was caught in its turn")


def test_a_process_that_is_stopped_in_its_turn_does_not_stop_the_others(stack, promised):
    notes, over, admin = stack.folder / "notes", threading.Event(), stack.admin

    def submit():
        while not over.is_set():
            job = admin.submit("test.line", path=str(notes), seconds=0)
            promised.add(int(job["id"]))

    client = threading.Thread(target=submit)
    client.start()
    try:
        pids = set()
        wait_for(lambda: pids.update(Storm(stack, 0, notes)._pids("horse")) or pids, what="a horse")
        stopped = stop_in_turn(stack, lambda: pids)
    finally:
        over.set()
    job = stack.admin.submit("test.line", path=str(notes))      # LONGEST_TURN is 4 s, a client's patience a minute
    promised.add(int(job["id"]))
    client.join(60)
    assert not alive(stopped) and "held the turn to write" in stack.output()
    settle(stack, promised, notes)


@pytest.mark.parametrize("how", ["hangs", "is gone"])
def test_clients_do_not_notice_that_redis(stack, promised, how):
    """The figure is in bench/; here only that not everybody waits for Redis, whose clients give up after half a second
    at best."""
    wait_for(lambda: stack.pids("redis"), what="Redis")
    [redis] = stack.pids("redis")
    admin, notes, times = stack.admin, stack.folder / "notes", []
    admin.submit("test.line", path=str(notes))
    os.kill(redis, signal.SIGSTOP if how == "hangs" else signal.SIGKILL)
    try:
        for _ in range(15):
            began = time.monotonic()
            job = admin.submit("test.line", path=str(notes))
            assert admin.job(job["id"])["id"] == job["id"]
            times.append(time.monotonic() - began)
        assert min(times) < 0.4, times
        if how == "hangs":
            assert admin.get("/readyz").json()["degraded"] == ["redis"]
    finally:
        if how == "hangs":
            os.kill(redis, signal.SIGCONT)
    wait_for(lambda: requests.get(stack.url + "/readyz").json().get("degraded") == [], what="Redis to be back")
    settle(stack, promised, notes)


def test_what_the_storms_left_behind(stack, promised):
    """No temporary folders, no keys for ever, no process but those that belong here."""
    import redis as client
    work = stack.data / "work"
    assert not work.exists() or not any(Path(entry).is_dir() and not entry.name[0].isdigit() for entry in work.iterdir())
    connection = client.Redis(unix_socket_path=str(stack.data / "redis.sock"))
    lasting = {key.decode() for key in connection.keys() if connection.ttl(key) == -1}
    assert {key for key in lasting if key.startswith(("rq:job:", "rq:worker:", "rq:results:", "rq:wip:"))} == set()
