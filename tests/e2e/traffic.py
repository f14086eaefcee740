"""Jobs that come, move and go as fast as a test wants, written straight into a server's database."""

from collections import deque

from jobs import settings as settings_module
from jobs.core import claim, lifecycle
from jobs.core.outcome import Failed, Succeeded
from jobs.db import Database
from jobs.doorbell import Doorbell
from jobs.embedded_redis import socket_path, url
from jobs.errors import Problem
from tests.core import given
from tests.stack import Stack

QUEUE = "traffic"       # which no worker serves
STEPS = 20


class Traffic:
    """`change()` makes one visible change and rings the bell for it, as a worker would."""

    def __init__(self, server: Stack, owner: str, at_once: int = 15):
        settings = settings_module.load(server.environment)
        self._db = Database(settings)
        self._bell = Doorbell(url(socket_path(settings)))
        self._owner, self._at_once = owner, at_once
        self._running: deque = deque()
        self.ended: list[int] = []

    def change(self) -> None:
        if len(self._running) < self._at_once:
            row = self._write(self._begin)
            self._running.append([row, 0])
        else:
            row, done = self._running.popleft()
            if done == STEPS:
                outcome = Failed(Problem("handler-error", "as it goes")) if row.id % 5 == 0 else Succeeded('{"value":1}')
                self._write(lambda tx: lifecycle.settle(tx, row.id, row.attempt, outcome))
                self.ended.append(row.id)
            else:
                self._running.append([row, done + 1])
                self._write(lambda tx: (lifecycle.beat(tx, row.id, row.attempt),
                                        lifecycle.report(tx, row.id, row.attempt, done * 100 // STEPS, f"step {done} of {STEPS}")))
        self._bell.publish({"id": row.id, "version": self._db.read().value("SELECT max(version) FROM jobs"),
                            "status": "running", "progress": None, "stage": None, "attempt": 1, "owner": self._owner})

    def finish(self) -> None:
        """Let what runs come to its end."""
        for row, _ in self._running:
            self._write(lambda tx, row=row: lifecycle.settle(tx, row.id, row.attempt, Succeeded("1")))
            self.ended.append(row.id)
        self._running.clear()

    def close(self) -> None:
        self.finish()
        self._db.close()

    def _begin(self, tx):
        given.submission.accept(tx, given.asked(owner=self._owner, queue=QUEUE, payload='{"seconds":1,"title":"nightly 夜间"}'))
        return claim.claim_next(tx, QUEUE, f"traffic-{len(self._running)}")

    def _write(self, action):
        return self._db.write(action, durable=False)
