"""What the machinery costs: from a POST to the first line of the handler, and how many empty jobs a worker does.

    python bench/overhead.py [JOBS]                                      default 200

Prints one JSON object; times in milliseconds. `start` runs from before the POST to the handler's first line (aim: a p50
under 15), `post` until the 202, `done` until a poll of the database sees the job finished. `throughput` is the number of
empty jobs a second that one worker does from a full queue.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs import clock, settings  # noqa: E402
from jobs.db import Database  # noqa: E402
from tests.stack import Stack, wait_for  # noqa: E402

TYPES = Path(__file__).resolve().parent / "types"


def measure(api, db: Database, number: int) -> dict[str, list[float]]:
    """Times of jobs submitted one after the other."""
    times: dict[str, list[float]] = {"post": [], "start": [], "done": []}
    for _ in range(number):
        before = time.time()
        id = int(api.submit("bench.first-line")["id"])
        accepted = time.time()
        while (job := db.read().one("SELECT status, result FROM jobs WHERE id = :id", id=id)).status != "succeeded":
            time.sleep(0.0005)
        done = time.time()
        for name, at in (("post", accepted), ("start", json.loads(job.result)), ("done", done)):
            times[name].append(1000 * (at - before))
    return times


def throughput(api, db: Database, number: int) -> float:
    """Jobs a second, from the first start to the last end."""
    last = [int(api.submit("bench.first-line", {"notBefore": clock.after(3)})["id"]) for _ in range(number)][-1]
    wait_for(lambda: not db.read().value("SELECT 1 FROM jobs WHERE status IN ('queued', 'running') LIMIT 1"), 120)
    rows = db.read().all("SELECT started_at, finished_at FROM jobs WHERE id > :first", first=last - number)
    span = clock.parse(max(row.finished_at for row in rows)) - clock.parse(min(row.started_at for row in rows))
    return number / span.total_seconds()


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of all lies."""
    return round(sorted(values)[int(share * (len(values) - 1))], 1)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder), job_modules=str(TYPES)) as stack:
        db = Database(settings.load(stack.environment))
        api = stack.session("bench")
        measure(api, db, 20)
        times = measure(api, db, number)
        rate = throughput(api, db, number)
        db.close()
    print(json.dumps({name: {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95)} for name, values in times.items()}
                     | {"throughput": round(rate)}))


if __name__ == "__main__":
    main()
