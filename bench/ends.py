"""How soon things end that are promised to end: cancels, stops, and jobs while Redis hangs.

    python bench/ends.py [ROUNDS]        about a minute with 10 rounds

The tests show that these end, and by whose hand; how soon is measured here, as the longest and the median of the rounds.
Exit code 1 when a promise of docs/http.md or docs/running.md was broken: a cancel takes grace + 2 s at most.
"""

import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.work.house import House  # noqa: E402

GRACE, DRAIN = 1, 1


def cooperative(house: House) -> float:
    """A job that reports every 0.1 s, from the cancel to its end."""
    return _cancelled(house, steps=6000)


def forced(house: House) -> float:
    """A job that ignores the cancel, beyond the grace."""
    return _cancelled(house, steps=600, ignoreCancel=True) - GRACE


def while_redis_hangs(house: House) -> float:
    """The same as `cooperative`, with a Redis that answers nothing."""
    id = _running(house, steps=6000)
    house.valkey.send_signal(signal.SIGSTOP)
    try:
        return _seconds(lambda: (house.cancel(id), house.finished(id)))
    finally:
        house.valkey.send_signal(signal.SIGCONT)


def stop(house: House) -> float:
    """A worker with a long job, from SIGTERM to its end, beyond the drain."""
    _running(house, steps=6000)
    took = _seconds(lambda: house.stop(house.worker, timeout=60)) - DRAIN
    house.worker = house.start("worker")
    for row in house.db.read().all("SELECT id FROM jobs WHERE status IN ('queued', 'running')"):
        house.cancel(row.id)
        house.finished(row.id)
    return took


def _cancelled(house: House, **payload) -> float:
    id = _running(house, **payload)
    return _seconds(lambda: (house.cancel(id), house.finished(id)))


def _running(house: House, **payload) -> int:
    id = house.submit("demo.drill", seconds=600, **payload)
    house.running(id)
    return id


def _seconds(action) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


if __name__ == "__main__":
    rounds, kept = int(sys.argv[1]) if len(sys.argv) > 1 else 10, True
    with tempfile.TemporaryDirectory() as folder, House(folder, grace=GRACE, drain=DRAIN, lease=60) as house:
        house.start("dispatcher")
        house.worker = house.start("worker")
        for measure, limit in ((cooperative, GRACE + 2), (forced, 2), (while_redis_hangs, GRACE + 2), (stop, None)):
            took = [measure(house) for _ in range(rounds)]
            kept &= limit is None or max(took) <= limit
            print(f"{measure.__name__:18} median {statistics.median(took):.2f} s, longest {max(took):.2f} s"
                  + (f" (promised: {limit})" if limit else ""), flush=True)
    sys.exit(not kept)
