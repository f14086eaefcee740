"""Redis that is killed, emptied, stopped or restarted while jobs wait and run."""

import signal
import time

import rq

from tests.work.house import wait_for


def test_redis_gone_across_the_end_of_a_job(patient):
    worker = patient.start("worker")
    id = patient.submit("demo.drill", seconds=2, value=1, logLines=5)
    patient.running(id)
    patient.stop(patient.valkey, signal.SIGKILL)
    job = patient.finished(id)
    assert (job.status, job.attempt) == ("succeeded", 1) and len(patient.lines(id)) == 5
    late = patient.submit("test.pid")  # accepted while Redis is away
    time.sleep(1)
    assert worker.poll() is None and patient.dispatcher.poll() is None
    patient.start_redis()
    assert patient.finished(late).status == "succeeded"


def test_redis_gone_and_back_in_the_middle_of_a_job(patient):
    patient.start("worker")
    id = patient.submit("demo.drill", seconds=4, steps=40)
    patient.running(id)
    patient.stop(patient.valkey, signal.SIGKILL)
    time.sleep(1)
    patient.start_redis()
    patient.redis.flushall()
    job = patient.finished(id)
    assert (job.status, job.attempt) == ("succeeded", 1)


def test_redis_emptied_with_a_queue_in_it(patient):
    ids = [patient.submit("test.pid") for _ in range(12)]
    wait_for(lambda: patient.redis.llen("rq:queue:default") == 6, what="the bound of tickets")
    patient.redis.flushall()
    patient.start("worker")
    patient.redis.flushall()
    for id in ids:
        assert patient.finished(id).status == "succeeded"
    patient.redis.flushall()
    assert patient.finished(patient.submit("demo.drill", seconds=1.5)).status == "succeeded"
    wait_for(lambda: len(rq.Worker.all(connection=patient.redis)) == 1, what="the worker to be seen again")


def test_a_hanging_redis_slows_neither_a_job_nor_its_cancel(patient):
    patient.start("worker")
    quick = patient.submit("demo.drill", seconds=1, steps=50)
    patient.running(quick)
    patient.valkey.send_signal(signal.SIGSTOP)
    assert patient.finished(quick).status == "succeeded"
    patient.valkey.send_signal(signal.SIGCONT)
    slow = patient.submit("demo.drill", seconds=600, steps=6000)
    patient.running(slow)
    patient.valkey.send_signal(signal.SIGSTOP)
    patient.cancel(slow)
    assert patient.finished(slow).status == "cancelled"
    patient.valkey.send_signal(signal.SIGCONT)
    assert patient.finished(patient.submit("test.pid")).status == "succeeded"


def test_a_cancel_right_after_a_restart_of_redis(patient):
    patient.start("worker")
    id = patient.submit("demo.drill", seconds=600, steps=6000)
    patient.running(id)
    patient.stop(patient.valkey, signal.SIGKILL)
    patient.start_redis()
    patient.cancel(id)
    assert patient.finished(id).status == "cancelled"
