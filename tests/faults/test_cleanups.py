"""A type's clean-up runs, whatever ended the attempt and whoever died."""

import signal

import pytest

from tests.faults.storm import TYPES
from tests.work.house import wait_for


@pytest.fixture
def house(make_house, tmp_path):
    """With a clock that can be moved."""
    (tmp_path / "clock").write_text("0")
    return make_house(job_modules=TYPES, test_clock=tmp_path / "clock")


def tries(folder):
    """The clean-ups so far, as `job:attempt`."""
    return (folder / "tries").read_text().split() if (folder / "tries").exists() else []


def owed(house):
    return house.db.read().value("SELECT count(*) FROM cleanups")


def test_after_the_last_attempt_was_lost_another_worker_cleans_up(house, tmp_path):
    (tmp_path / "open").touch()
    worker = house.start("worker")
    id = house.submit("test.dirty", max_attempts=1, folder=str(tmp_path))
    wait_for((tmp_path / "began 1").exists, what="the handler")
    house.stop(worker, signal.SIGKILL)
    assert house.finished(id).status == "failed" and tries(tmp_path) == []
    house.start("worker")
    wait_for(lambda: tries(tmp_path) == [f"{id}:1"] and not owed(house), what="the clean-up")


def test_the_next_attempt_begins_with_the_clean_up_of_a_lost_one(house, tmp_path):
    (tmp_path / "open").touch()
    worker = house.start("worker")
    id = house.submit("test.dirty", folder=str(tmp_path))
    wait_for((tmp_path / "began 1").exists, what="the handler")
    house.stop(worker, signal.SIGKILL)
    house.start("worker")
    wait_for((tmp_path / "began 2").exists, what="the second attempt")
    assert tries(tmp_path) == [f"{id}:1"]
    house.cancel(id)
    house.finished(id)
    wait_for(lambda: tries(tmp_path) == [f"{id}:1", f"{id}:2"] and not owed(house), what="its clean-up")


def test_one_that_fails_is_tried_again_later(house, tmp_path):
    house.start("worker")
    id = house.submit("test.dirty", folder=str(tmp_path))
    wait_for((tmp_path / "began 1").exists, what="the handler")
    house.cancel(id)
    assert house.finished(id).status == "cancelled"
    wait_for(lambda: len(tries(tmp_path)) == 2, what="its own try and another")
    (tmp_path / "open").touch()
    assert house.finished(house.submit("test.line", path=str(tmp_path / "lines"))).status == "succeeded"
    assert owed(house) == 1 and len(tries(tmp_path)) == 2, "not before its time"
    assert "the horse was put down" not in house.text()
    (tmp_path / "clock").write_text("120")
    wait_for(lambda: not owed(house), what="the clean-up")
    assert tries(tmp_path) == [f"{id}:1"] * 3
