"""Tickets: RQ's jobs, as we use them. One is a permit to run the next due job of a queue; it names no job.

So a ticket that is lost, doubled or left over is harmless: the dispatcher keeps as many as there is due work, and a
worker that finds nothing to claim lets its ticket go. Each has an id of its own, is written as JSON, and expires by itself.
"""

import redis
from rq import Queue
from rq.serializers import JSONSerializer

RESULT_TTL = 30
FAILURE_TTL = 300
TTL = 3600       # seconds until a ticket that nobody took is forgotten
_TIMEOUT = 2.0   # seconds; longer than any of our blocking calls


def connect(redis_url: str) -> redis.Redis:
    """A client that never waits long and never repeats: whoever uses it has a better idea what to do meanwhile."""
    return redis.Redis.from_url(redis_url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT,
                                retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0), health_check_interval=0)


def permit() -> None:
    """What a ticket names as its function. Our workers never call it: having the ticket is all there is to it."""


class Tickets:
    """The tickets of one queue, for the dispatcher."""

    def __init__(self, connection: redis.Redis, queue: str):
        self._queue = Queue(queue, connection=connection, serializer=JSONSerializer)

    def refill(self, wanted: int) -> int:
        """Make it `wanted` tickets, if there are fewer; how many were added. RedisError when Redis is away."""
        missing = wanted - self._queue.count
        if missing > 0:
            self._queue.enqueue_many([
                Queue.prepare_data(permit, description="permit", timeout=-1, ttl=TTL, result_ttl=RESULT_TTL,
                                   failure_ttl=FAILURE_TTL) for _ in range(missing)])
        return max(missing, 0)
