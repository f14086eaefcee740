"""Redis that is killed, emptied, stopped or restarted while jobs wait and run."""

import signal
import time

import rq

from tests.work.house import wait_for


def test_redis_gone_across_the_end_of_a_job(house):
    worker = house.start("worker")
    id = house.submit("demo.drill", seconds=2, value=1, logLines=5)
    house.running(id)
    house.stop(house.valkey, signal.SIGKILL)
    job = house.finished(id)
    assert (job.status, job.attempt) == ("succeeded", 1) and len(house.lines(id)) == 5
    late = house.submit("test.pid")  # accepted while Redis is away
    time.sleep(1)
    assert worker.poll() is None and house.dispatcher.poll() is None
    house.start_redis()
    assert house.finished(late).status == "succeeded"


def test_redis_gone_and_back_in_the_middle_of_a_job(house):
    house.start("worker")
    id = house.submit("demo.drill", seconds=4, steps=40)
    house.running(id)
    house.stop(house.valkey, signal.SIGKILL)
    time.sleep(1)
    house.start_redis()
    house.redis.flushall()
    job = house.finished(id)
    assert (job.status, job.attempt) == ("succeeded", 1)


def test_redis_emptied_with_a_queue_in_it(house):
    ids = [house.submit("test.pid") for _ in range(12)]
    wait_for(lambda: house.redis.llen("rq:queue:default") == 6, what="the bound of tickets")
    house.redis.flushall()
    house.start("worker")
    house.redis.flushall()
    for id in ids:
        assert house.finished(id).status == "succeeded"
    house.redis.flushall()
    assert house.finished(house.submit("demo.drill", seconds=1.5)).status == "succeeded"
    wait_for(lambda: len(rq.Worker.all(connection=house.redis)) == 1, what="the worker to be seen again")


def test_a_hanging_redis_slows_neither_a_job_nor_its_cancel(house):
    house.start("worker")
    quick = house.submit("demo.drill", seconds=1, steps=50)
    house.running(quick)
    house.valkey.send_signal(signal.SIGSTOP)
    since = time.monotonic()
    assert house.finished(quick).status == "succeeded"
    assert time.monotonic() - since < 4
    house.valkey.send_signal(signal.SIGCONT)
    slow = house.submit("demo.drill", seconds=60, steps=600)
    house.running(slow)
    house.valkey.send_signal(signal.SIGSTOP)
    house.cancel(slow)
    since = time.monotonic()
    assert house.finished(slow).status == "cancelled"
    assert time.monotonic() - since < 3  # the grace is 1 s
    house.valkey.send_signal(signal.SIGCONT)
    assert house.finished(house.submit("test.pid")).status == "succeeded"


def test_a_cancel_right_after_a_restart_of_redis(house):
    house.start("worker")
    id = house.submit("demo.drill", seconds=60, steps=600)
    house.running(id)
    house.stop(house.valkey, signal.SIGKILL)
    house.start_redis()
    house.cancel(id)
    since = time.monotonic()
    assert house.finished(id).status == "cancelled"
    assert time.monotonic() - since < 3
