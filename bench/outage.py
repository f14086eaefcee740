"""What a Redis that hangs, or is gone, costs those who submit and poll.

    python bench/outage.py [N]              default 300 pairs of POST and GET each; about half a minute

The whole server in a temporary folder, one client. The promise: at most 100 ms more.
"""

import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.stack import Api, Stack, wait_for  # noqa: E402


def pairs(api: Api, number: int) -> list[float]:
    """Milliseconds of each POST with the GET after it."""
    times = []
    for _ in range(number):
        began = time.perf_counter()
        api.job(api.submit("demo.drill", seconds=0)["id"])
        times.append((time.perf_counter() - began) * 1e3)
    return sorted(times)


def main(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="acc-") as folder, Stack(Path(folder)) as stack:
        api = stack.admin
        pairs(api, 20)      # warms up
        [redis] = stack.pids("redis")
        found = {"well": pairs(api, number)}
        os.kill(redis, signal.SIGSTOP)
        found["hangs"] = pairs(api, number)
        os.kill(redis, signal.SIGCONT)
        found["well again"] = pairs(api, number)

        def refused():      # the supervisor starts it again at once, so it is killed before each pair
            for pid in stack.pids("redis"):
                os.kill(pid, signal.SIGKILL)
            return pairs(api, 1)

        found["is gone"] = sorted(refused()[0] for _ in range(min(number, 60)))
        wait_for(lambda: api.get("/readyz").json().get("degraded") == [], what="Redis")
        base = found["well"]
        for name, times in found.items():
            median, last = statistics.median(times), times[int(len(times) * 0.99)]
            print(f"Redis {name:11} p50 {median:6.1f} ms ({median - statistics.median(base):+.1f}), p99 {last:6.1f} ms "
                  f"({last - base[int(len(base) * 0.99)]:+.1f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
