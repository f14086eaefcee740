"""The whole real server for tests: `Stack` starts `python -m jobs.cli start` on a free port with its own folder.

    with Stack(tmp_path, drain="1") as server:
        alice = server.session("alice")
        job = alice.submit("demo.drill", seconds=0)
        assert alice.finished(job["id"])["status"] == "succeeded"
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import requests

from jobs.leash import tie_to_parent

ROOT = Path(__file__).resolve().parent.parent
SHORT = {
    "port": "0", "workers": "1", "lease": "3", "heartbeat": "500ms", "grace": "1", "drain": "2", "keepalive": "1",
    "rate_limit": "0", "allowed_targets": "127.0.0.1",
}
TERMINAL = {"succeeded", "failed", "cancelled", "partialSuccess"}


def wait_for(condition: Callable[[], Any], timeout: float = 60, what: str = "the condition") -> Any:
    """The first true value of `condition()`, asked every 20 ms; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(0.02)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes() -> dict[int, tuple[int, str]]:
    """Every process of the machine: pid -> (parent's pid, command line)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = parent, (folder / "cmdline").read_text().replace("\0", " ").strip()
        except (FileNotFoundError, ProcessLookupError):     # it ended while we looked
            pass
    return found


def descendants(pid: int) -> dict[int, str]:
    """Children of `pid`, their children and so on: pid -> command line."""
    everyone = processes()
    found: dict[int, str] = {}
    wave = {pid}
    while wave:
        wave = {child for child, (parent, _) in everyone.items() if parent in wave and child not in found}
        found |= {child: everyone[child][1] for child in wave}
    return found


class Api(requests.Session):
    """A requests session with a bearer key; paths that begin with / lead to the server."""

    def __init__(self, base: str, key: str):
        super().__init__()
        self.base, self.key = base, key
        self.headers["Authorization"] = f"Bearer {key}"

    def request(self, method, url, *args, **options):
        options.setdefault("timeout", 60)
        return super().request(method, self.base + url if url.startswith("/") else url, *args, **options)

    def submit(self, type_name: str, options: dict | None = None, **payload) -> dict:
        """POST /v1/jobs and the accepted job."""
        answer = self.post("/v1/jobs", json={"type": type_name, "payload": payload} | (options or {}))
        assert answer.status_code == 202, answer.text
        return answer.json()

    def job(self, id: str) -> dict:
        """The job as it is now."""
        answer = self.get(f"/v1/jobs/{id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def frames(self, id: str) -> Iterator[dict]:
        """The data of each event of its stream, until the job has ended."""
        with self.get(f"/v1/jobs/{id}/events", stream=True) as stream:
            for line in stream.iter_lines(decode_unicode=True):
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    def finished(self, id: str, timeout: float = 60) -> dict:
        """The job once it is terminal."""
        return self.reached(id, TERMINAL, timeout)

    def reached(self, id: str, statuses: set[str], timeout: float = 60) -> dict:
        """The job once its status is one of `statuses`."""
        return wait_for(lambda: (job := self.job(id))["status"] in statuses and job, timeout, f"job {id}: {statuses}")


class Stack:
    """A running server. Settings are given in lower case; what is not given is short (SHORT) or the default."""

    def __init__(self, folder: Path, **settings: str):
        self.folder = Path(folder)
        self.log = self.folder / "server.log"
        self.settings = SHORT | {"data_dir": str(self.folder / "data")}
        self.settings |= {name: str(value) for name, value in settings.items()}
        self.data = Path(self.settings["data_dir"])
        self.process: subprocess.Popen | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the server: this process's own, with no settings but the stack's."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("ACCEPTED_")}
        return outside | {f"ACCEPTED_{name.upper()}": value for name, value in self.settings.items()}

    def command(self, *args: str) -> subprocess.Popen:
        """Start `python -m jobs.cli …` with the stack's settings; its output goes to the log."""
        with self.log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "jobs.cli", *args], cwd=ROOT, env=self.environment,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                    preexec_fn=partial(tie_to_parent, os.getpid()))     # no orphan of a killed test run

    def start(self, timeout: float = 60) -> Self:
        """Start and wait until /readyz is good and nothing is degraded."""
        self.process = self.command("start", "--verbose")
        try:
            wait_for(self._ready, timeout, "the server to be ready")
        except BaseException as error:
            error.add_note(self.output())
            self.stop()
            raise
        self.settings["port"] = self.url.rpartition(":")[2]
        return self

    def stop(self, signum: int = signal.SIGTERM, timeout: float = 60) -> int:
        """Signal the supervisor, wait for its end, and return its exit code. A stopped stack stays stopped."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signum)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop within {timeout:g} s\n{self.output()}") from None
        self.process = None
        return code

    def restart(self) -> Self:
        """Stop and start again, on the same folder and port."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return json.loads((self.data / "server.lock").read_text())["url"]

    @property
    def key(self) -> str:
        """The admin's key."""
        return self.settings.get("admin_key") or (self.data / "admin.key").read_text().strip()

    @property
    def admin(self) -> Api:
        """A session of the admin."""
        return Api(self.url, self.key)

    def session(self, owner: str, role: str = "submit") -> Api:
        """A session of `owner` with a new key of that role (submit, read or admin)."""
        from jobs import settings
        from jobs.core.access import make_key
        from jobs.db import Database
        database = Database(settings.load(self.environment))
        try:
            return Api(self.url, database.write(lambda tx: make_key(tx, owner, role, f"test {owner}")))
        finally:
            database.close()

    def pids(self, role: str) -> list[int]:
        """Pids of the supervisor's children of a role: web, worker, dispatcher or redis."""
        mark = {"web": "gunicorn", "redis": "unixsocket"}.get(role, f"jobs.cli {role}")
        mine = self.process.pid
        return sorted(pid for pid, (parent, line) in processes().items() if parent == mine and mark in line)

    def output(self) -> str:
        """What the server has printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _ready(self) -> bool:
        code = self.process.poll()
        assert code is None, f"the server ended with {code}\n{self.output()}"
        try:
            answer = requests.get(f"{self.url}/readyz", timeout=60)
        except (OSError, ValueError):       # no lock file yet, half a line in it, or nobody listens
            return False
        return answer.status_code == 200 and not answer.json().get("degraded")
