"""Does anything grow? The whole server under steady work; what it holds is noted every so often.

    python bench/soak.py [--minutes 10] [--rate 8] [--database URL]

One in twenty jobs fails, one is cancelled, one leaves an artifact, one raises and is tried again; watchers come and go;
finished jobs expire after some seconds, so that the database has reason to stay as it is. The first fifth of the time
counts as warming up; after it the first and the last third are compared. Exit code 1 when something grew.
"""

import argparse
import random
import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import redis
import requests

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.stack import Stack, descendants  # noqa: E402

ALLOWED = {"descriptors": 1.10, "threads": 1.10, "memory MB": 1.15, "keys without TTL": 1.0, "keys": 1.3, "database MB": 1.15,
           "log MB": 1.5, "files": 1.3}     # last third / first third; with a little more for small numbers
SLACK = {"descriptors": 6, "threads": 3, "memory MB": 12, "keys without TTL": 1, "keys": 20, "database MB": 1, "log MB": 8, "files": 40}


def seen(stack: Stack) -> dict[str, float]:
    """What the server holds now, all its processes together."""
    found = dict.fromkeys(ALLOWED, 0.0)
    for pid in [stack.process.pid, *descendants(stack.process.pid)]:
        process = Path(f"/proc/{pid}")
        try:
            found["descriptors"] += len(list((process / "fd").iterdir()))
            found["threads"] += len(list((process / "task").iterdir()))
            resident, shared = map(int, (process / "statm").read_text().split()[1:3])
            found["memory MB"] += (resident - shared) * resource.getpagesize() / 1e6
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass    # it has just ended
    connection = redis.Redis(unix_socket_path=str(stack.data / "redis.sock"))
    for key in connection.scan_iter():
        found["keys"] += 1
        found["keys without TTL"] += connection.ttl(key) == -1
    for path in stack.data.rglob("*"):
        found["files"] += path.is_file()
    for name, file in (("database MB", "accepted.db"), ("log MB", "accepted.db-wal")):
        if (stack.data / file).exists():
            found[name] = (stack.data / file).stat().st_size / 1e6
    return found


def work(stack: Stack, rate: float, over: threading.Event) -> None:
    """Submit at that rate, per second."""
    chance, api = random.Random(8202), stack.admin
    fates = [{"fail": "as asked"}, {"artifact": "note.txt"}, {"failAttempts": 1}, {"seconds": 60, "cancel": True}]
    while not over.wait(chance.expovariate(rate)):
        fate = dict(chance.choice(fates)) if chance.random() < 0.2 else {}
        cancel = fate.pop("cancel", False)
        job = api.submit("demo.drill", **({"seconds": 0.02, "steps": 2, "logLines": 2, "value": "x" * 500} | fate))
        if cancel:
            api.post(f"/v1/jobs/{job['id']}:cancel")
        elif chance.random() < 0.2:
            api.get(f"/v1/jobs/{job['id']}?wait=5")
        elif chance.random() < 0.1:
            with api.get(f"/v1/jobs/{job['id']}/events", stream=True, timeout=30) as stream:
                next(stream.iter_lines(), None)     # and away


def soak(minutes: float, rate: float, database: str) -> int:
    with tempfile.TemporaryDirectory(prefix="acc-") as folder:
        settings = {"workers": "2", "retention": "15s", "tombstones": "15s", "resource_retention": "15s"}
        with Stack(Path(folder), **settings, **({"database_url": database} if database else {})) as stack:
            over, samples, began = threading.Event(), [], time.monotonic()
            client = threading.Thread(target=work, args=(stack, rate, over))
            client.start()
            every = max(minutes * 60 / 60, 2)
            while (passed := time.monotonic() - began) < minutes * 60 and client.is_alive():
                time.sleep(every)
                samples.append(seen(stack))
                if len(samples) % 10 == 0:
                    print(f"{passed:5.0f} s  " + "  ".join(f"{name} {value:.0f}" for name, value in samples[-1].items()), flush=True)
            over.set()
            client.join(90)
            newest = requests.get(f"{stack.url}/v1/jobs", params={"limit": 1}, headers={"Authorization": f"Bearer {stack.key}"}).json()
            print(f"{minutes:g} minutes, {newest['jobs'][0]['id']} jobs")
            return compare(samples[len(samples) // 5:])


def compare(samples: list[dict[str, float]]) -> int:
    """Print the first third against the last; 1 when anything grew."""
    third, grew = max(len(samples) // 3, 1), 0
    print(f"{'median of a third':20}{'first':>10}{'last':>10}")
    for name, allowed in ALLOWED.items():
        first, last = (statistics.median(sample[name] for sample in part) for part in (samples[:third], samples[-third:]))
        bad = last > first * allowed and last > first + SLACK[name]
        grew |= bad
        print(f"{name:20}{first:10.1f}{last:10.1f}{'  GREW' if bad else ''}")
    return grew


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=8)
    parser.add_argument("--database", default="")
    given = parser.parse_args()
    sys.exit(soak(given.minutes, given.rate, given.database))
