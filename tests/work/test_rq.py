"""What we rely on in RQ 3.0, public and private, and what we put into Redis."""

import json
import os
import zlib

import pytest
import redis
import rq
from rq.exceptions import DequeueTimeout
from rq.serializers import JSONSerializer

from jobs.work import tickets
from jobs.work.worker import Worker
from tests.work.house import wait_for

OVERRIDDEN = ("work", "execute_job", "fork_work_horse", "monitor_work_horse", "kill_horse", "subscribe", "request_stop", "teardown",
              "_install_signal_handlers", "_set_ip_address", "dequeue_timeout", "connection_timeout")


@pytest.fixture(scope="session")
def new_database():
    """Of the two databases the one that is quicker to make: what is asked of RQ and of Redis is the same with both."""
    return str


@pytest.fixture
def queue(house):
    """The default queue, as RQ sees it."""
    return rq.Queue("default", connection=house.redis, serializer=JSONSerializer)


def test_the_version_is_the_one_that_was_read():
    assert rq.VERSION.startswith("3.0.")


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_what_we_override_exists(name):
    assert hasattr(rq.Worker, name) and name in vars(Worker)


def test_the_private_state_we_touch(house):
    worker = Worker(house.settings, [], "default")
    assert (worker._horse_pid, worker._is_horse, worker._stop_requested, worker._state) == (0, False, False, "starting")
    assert [queue.name for queue in worker.queues] == ["default"] and worker.serializer is JSONSerializer
    assert worker.connection.connection_pool.connection_kwargs["socket_timeout"] <= 2
    worker.kill_horse()  # pid 0: RQ's own would kill this very process group
    worker.subscribe()
    assert worker.pubsub_thread is None


def test_a_worker_starts_without_redis(house):
    house.valkey.kill()
    house.valkey.wait()
    Worker(house.settings, [], "default")


def test_tickets_are_json_permits_that_expire(house, queue):
    found = tickets.Tickets(house.redis, "default")
    assert (found.refill(3), found.refill(3), found.refill(5)) == (3, 0, 2)
    ids = queue.get_job_ids()
    assert len(set(ids)) == 5
    for id in ids:
        ticket = queue.fetch_job(id)
        assert (ticket.result_ttl, ticket.failure_ttl, ticket.retries_left) == (30, 300, None)
        assert 0 < house.redis.ttl(ticket.key) <= tickets.TTL
        assert json.loads(zlib.decompress(house.redis.hget(ticket.key, "data"))) == ["jobs.work.tickets.permit", None, [], {}]


def test_a_taken_ticket_waits_in_the_intermediate_list(house, queue):
    tickets.Tickets(house.redis, "default").refill(1)
    key, id = rq.Queue.lmove(house.redis, queue.key, 1)
    assert (key, queue.intermediate_queue_key) == ("rq:queue:default", "rq:queue:default:intermediate")
    assert house.redis.lrange(queue.intermediate_queue_key, 0, -1) == [id]
    with pytest.raises(DequeueTimeout):
        rq.Queue.lmove(house.redis, queue.key, 1)


def test_workers_are_seen_and_signed_off(house):
    house.start("dispatcher")
    process = house.start("worker")
    [seen] = wait_for(lambda: rq.Worker.all(connection=house.redis), what="a registered worker")
    assert (seen.pid, seen.queue_names(), seen.get_state()) == (process.pid, ["default"], "idle")
    assert str(os.getpid()) not in seen.name
    id = house.submit("demo.drill", seconds=600)
    wait_for(lambda: rq.Worker.all(connection=house.redis)[0].get_state() == "busy", what="a busy worker")
    house.cancel(id)
    house.finished(id)
    house.stop(process)
    assert rq.Worker.all(connection=house.redis) == []


def test_nothing_stays_in_redis_for_ever(house):
    house.start("dispatcher")
    house.start("worker")
    ids = [house.submit("demo.drill", seconds=0, fail="no") for _ in range(100)]
    for id in ids:
        house.finished(id)
    standing = {b"rq:queues", b"rq:workers", b"rq:workers:default", b"rq:queue:default"}
    wait_for(lambda: not {key for key in house.redis.keys() if house.redis.ttl(key) == -1} - standing, what="keys to have a TTL")
    assert house.redis.llen("rq:queue:default:intermediate") == 0


def test_clients_give_up_early(house):
    client = tickets.connect(house.settings.redis_url)
    house.valkey.kill()
    house.valkey.wait()
    with pytest.raises(redis.ConnectionError):
        client.ping()
