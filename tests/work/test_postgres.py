"""The same on PostgreSQL: run, report, cancel, lose a worker, change the leader."""

import json
import signal

import pytest

from tests.work.house import House, wait_for

pytestmark = pytest.mark.postgres


def test_jobs_run_on_postgres(tmp_path, postgres_url):
    with House(tmp_path, database_url=postgres_url) as house:
        leader, second = house.start("dispatcher"), house.start("dispatcher")
        worker = house.start("worker")
        id = house.submit("demo.drill", seconds=1.5, steps=10, logLines=4, value=[1], artifact="a.txt")
        wait_for(lambda: house.job(id).progress, what="progress")
        assert json.loads(house.finished(id).result) == {"value": [1]} and len(house.lines(id)) == 4
        id = house.submit("demo.drill", seconds=60, ignoreCancel=True)
        house.running(id)
        house.cancel(id)
        assert house.finished(id).status == "cancelled"
        id = house.submit("demo.drill", seconds=1)
        house.running(id)
        house.stop(worker, signal.SIGKILL)
        house.stop(leader, signal.SIGKILL)
        house.start("worker")
        assert (house.finished(id).status, house.job(id).attempt) == ("succeeded", 2)
        assert house.stop(second) == 0
