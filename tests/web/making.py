"""Jobs in every state, made as clients make them, and rows made directly where thousands are needed."""

import os
from contextlib import contextmanager

from jobs import settings
from jobs.core.submission import Submission, accept
from jobs.db import Database

STATES = ("queued", "running", "succeeded", "failed", "cancelled", "partialSuccess")
ACTIVE = {"queued", "running"}
_PAYLOADS = {"succeeded": {"value": 1}, "failed": {"fail": "as asked"}, "partialSuccess": {"partial": ["a"], "value": 2}}


def in_state(api, state: str) -> dict:
    """A new job of this caller that has reached the state; see to a running one's end with `end`."""
    if state in ("queued", "cancelled"):
        job = api.submit("test.parked")
        return job if state == "queued" else api.delete(f"/v1/jobs/{job['id']}").json()
    if state == "running":
        return api.reached(api.submit("demo.drill", seconds=600, steps=10000)["id"], {"running"})
    return api.finished(api.submit("demo.drill", seconds=0, steps=1, **_PAYLOADS[state])["id"])


def end(api, job: dict) -> None:
    """Cancel what still runs."""
    api.delete(f"/v1/jobs/{job['id']}")


@contextmanager
def database(stack):
    """The database of a running server, written to by its clock."""
    opened = Database(settings.load(stack.environment))
    os.environ["ACCEPTED_TEST_CLOCK"] = str(stack.settings.get("test_clock", ""))
    try:
        yield opened
    finally:
        del os.environ["ACCEPTED_TEST_CLOCK"]
        opened.close()


def accept_many(stack, owner: str, number: int, **members) -> list[int]:
    """Queued jobs that no worker takes, all accepted in one transaction; their ids."""
    asked = Submission(**{"type": "test.parked", "owner": owner, "queue": "nobody", "payload": "{}", "timeout": 60,
                          "retention": 600, "max_attempts": 1, "start_within": 600} | members)
    with database(stack) as opened:
        return opened.write(lambda tx: [accept(tx, asked).job.id for _ in range(number)])
