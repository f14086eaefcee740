"""The workers that announce themselves in Redis. Only to be shown: nothing depends on what is found here.

A worker's registration is RQ's: the set `rq:workers` and a hash for each. Whoever gave no sign for a minute is gone from it.
"""

import threading
from dataclasses import dataclass

import redis

from jobs import clock, doorbell
from jobs.web.site import Site

_FRESH = 3.0  # seconds for which one look serves all who ask
_lock = threading.Lock()
_known: dict[str, tuple[float, "list[Worker] | None"]] = {}


@dataclass(frozen=True)
class Worker:
    """`beat` and `since` are wire times or empty."""

    name: str
    queues: tuple[str, ...]
    beat: str
    since: str


def seen(site: Site) -> list[Worker] | None:
    """The workers of now, by name; None when Redis does not answer within half a second."""
    url, now = site.settings.redis_url, clock.monotonic()
    with _lock:
        at, found = _known.get(url, (None, None))
        if at is None or now - at > _FRESH:
            found = _ask(url)
            _known[url] = clock.monotonic(), found
    return found


def _ask(url: str) -> list[Worker] | None:
    if not url:
        return None
    try:
        with doorbell.connect(url) as client:
            keys = sorted(client.smembers("rq:workers"))
            with client.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.hmget(key, "queues", "last_heartbeat", "birth")
                answers = pipeline.execute()
    except (redis.RedisError, OSError):
        return None
    return [_worker(key, *answer) for key, answer in zip(keys, answers, strict=True) if answer[1]]


def _worker(key: bytes, queues: bytes | None, beat: bytes, birth: bytes | None) -> Worker:
    name = key.decode("utf-8", "replace").removeprefix("rq:worker:")
    return Worker(name, tuple((queues or b"").decode("utf-8", "replace").split(",")), _time(beat), _time(birth))


def _time(text: bytes | None) -> str:
    try:
        return clock.wire(clock.parse((text or b"").decode()))
    except ValueError:
        return ""
