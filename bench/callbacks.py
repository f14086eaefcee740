"""Callbacks while receivers hang: 1,000 events to ten endpoints, with and without two that never answer.

    python bench/callbacks.py [EVENTS]

Prints the time in which the eight others got everything. It should be at most 1.5 times the time without hanging ones.
"""

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jobs.webhooks.models  # noqa: E402, F401 - its tables belong to the schema
from jobs import settings  # noqa: E402
from jobs.core import claim, lifecycle, models  # noqa: E402
from jobs.core.outcome import Succeeded  # noqa: E402
from jobs.core.submission import Submission, accept  # noqa: E402
from jobs.db import Database  # noqa: E402
from jobs.targets import Guard  # noqa: E402
from jobs.webhooks import receivers  # noqa: E402
from jobs.webhooks.delivery import Sender  # noqa: E402
from tests.outbound import receiving, reply  # noqa: E402

ENDPOINTS, TICK = 10, 0.25


def run(events: int, hanging: int) -> float:
    """Seconds until the endpoints that answer have every event."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        found = settings.load({}, data_dir=folder, allowed_targets="127.0.0.1")
        db = Database(found)
        models.prepare(db, found)
        release = threading.Event()
        everyone = [stack.enter_context(receiving()) for _ in range(ENDPOINTS)]
        for receiver in everyone[:hanging]:
            receiver.answer = lambda handler: (release.wait(60), reply(handler))
        for receiver in everyone:
            db.write(lambda tx, url=receiver.url: receivers.register(tx, "bench", url, ["job.succeeded"]))
        db.write(lambda tx: [_job(tx) for _ in range(events)])
        sender = Sender(db, found, Guard(found.allowed_targets))
        began = time.monotonic()
        while any(len(receiver.got) < events for receiver in everyone[hanging:]):
            sender.tick()
            time.sleep(TICK)
        took = time.monotonic() - began
        release.set()
        sender.close(30)
        db.close()
        return took


def _job(tx) -> None:
    job = accept(tx, Submission(type="bench", owner="bench", queue="default", payload="{}", timeout=60, retention=600,
                                max_attempts=1, start_within=600)).job
    claim.claim_next(tx, "default", "bench")
    lifecycle.settle(tx, job.id, 1, Succeeded("null"))


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    quiet, hanging = run(number, 0), run(number, 2)
    print(f"{number} events to {ENDPOINTS} endpoints: {quiet:.1f} s; the other eight while two hang: {hanging:.1f} s "
          f"({hanging / quiet:.2f} times)")
