"""The hazards whose full measure takes minutes; `./run test` has each of them in a shorter form.

    python tests/faults/long.py          about three minutes; prints a line for each, ends with 1 if one of them bit

A worker told to stop at forty moments within 6 ms of a claim; Redis gone for 8, 20 and 25 s in the middle of a job and
across its end; 500 failures, after which no key may stay in Redis for ever.
"""

import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests import nursery  # noqa: E402
from tests.work.house import House, wait_for  # noqa: E402

CALM = {"lease": "10m", "grace": "10m", "drain": "10m"}


def stops_near_a_claim(house: House) -> str:
    ids = []
    for round_ in range(40):
        worker = house.start("worker")
        ids.append(house.submit("demo.drill", seconds=0.2))
        time.sleep(round_ % 7 / 1000)
        assert house.stop(worker) == 0
        assert house.job(ids[-1]).status in ("queued", "succeeded"), house.job(ids[-1])
    house.start("worker")
    for id in ids:
        job = house.finished(id)
        assert (job.status, job.attempt) == ("succeeded", 1), job
    return "40 stops within 6 ms of a claim: nothing stranded, nothing run twice"


def redis_away(house: House, seconds: float, across_the_end: bool) -> str:
    worker = house.start("worker")
    id = house.submit("demo.drill", seconds=seconds / 2 if across_the_end else seconds + 5, steps=40)
    house.running(id)
    house.stop(house.valkey, signal.SIGKILL)
    time.sleep(seconds)
    late = house.submit("test.pid")
    house.start_redis()
    job = house.finished(id)
    assert (job.status, job.attempt) == ("succeeded", 1), job
    assert house.finished(late).status == "succeeded" and worker.poll() is None
    return f"Redis away for {seconds:g} s {'across the end' if across_the_end else 'in the middle'} of a job: it succeeded"


def failures(house: House) -> str:
    house.start("worker")
    for id in [house.submit("demo.drill", seconds=0, fail="no") for _ in range(500)]:
        assert house.finished(id).status == "failed"
    standing = {b"rq:queues", b"rq:workers", b"rq:workers:default", b"rq:queue:default"}
    wait_for(lambda: not {key for key in house.redis.keys() if house.redis.ttl(key) == -1} - standing, what="keys to have a TTL")
    return "500 failures: no key without a TTL"


def tried(hazard, *given) -> bool:
    """In a house of its own; whether it did no harm."""
    with tempfile.TemporaryDirectory() as folder, House(folder, **CALM) as house:
        house.dispatcher = house.start("dispatcher")
        try:
            print("fine:", hazard(house, *given), flush=True)
            return True
        except AssertionError as error:
            print("FAILED:", hazard.__name__, *given, error, flush=True)
            return False


if __name__ == "__main__":
    nursery.shared()    # by this thread: it ends with the one that made it
    with ThreadPoolExecutor(6) as pool:
        outages = [pool.submit(tried, redis_away, seconds, end) for seconds in (8, 20, 25) for end in (False, True)]
        results = [outage.result() for outage in outages]
    sys.exit(not all([*results, tried(stops_near_a_claim), tried(failures)]))
