"""One web process alone (no worker, no Redis) and the house behind it: enough for everything about files."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

from jobs import settings as settings_module
from jobs.artifacts.store import open_store
from jobs.core import access, models
from jobs.db import Database
from tests.artifacts.given import House

ROOT = Path(__file__).resolve().parent.parent.parent


class FileServer(House):
    """Given settings, a running gunicorn. `key(owner)` makes a key; `http(owner)` a session that bears it."""

    def __init__(self, folder: Path, environ: dict[str, str] | None = None, **given: str):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.clock = folder / "clock"
        self._numbers = iter(range(10_000))
        settings = settings_module.load({}, **dict(data_dir=folder / "data", port=self.port, keepalive="500ms", rate_limit="0",
                                                   test_clock=self.clock) | given)
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        db = Database(settings)
        models.prepare(db, settings)
        super().__init__(db, open_store(settings), settings, self._make)
        outside = {name: text for name, text in os.environ.items() if not name.startswith("ACCEPTED_")}
        self.log = folder / "web.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "python:jobs.gunicorn_conf", "--bind", f"127.0.0.1:{self.port}", "wsgi:app"],
            cwd=ROOT, env=outside | settings.environment | (environ or {}), stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        self._keys: dict[tuple[str, str], str] = {}
        self.wait(self._answers, 30)

    @property
    def pid(self) -> int:
        """The process that serves."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    def key(self, owner: str, role: str = "submit") -> str:
        if (owner, role) not in self._keys:
            self._keys[owner, role] = self.db.write(lambda tx: access.make_key(tx, owner, role))
        return self._keys[owner, role]

    def http(self, owner: str, role: str = "submit") -> "Http":
        return Http(self.url, self.key(owner, role))

    def send(self, head: str, *pieces: bytes, owner: str = "alice") -> socket.socket:
        """A raw connection on which this has been sent; Host and Authorization are added."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        client.sendall(f"{head}\r\nHost: x\r\nAuthorization: Bearer {self.key(owner)}\r\n\r\n".encode())
        for piece in pieces:
            client.sendall(piece)
        return client

    def wait(self, condition, timeout: float = 10):
        """The first true value of the condition."""
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            assert time.monotonic() < deadline and self._process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        return value

    def leftovers(self) -> list[str]:
        """What lies in the folder for half-received files."""
        return [path.name for path in self.store.scratch.iterdir()]

    def stop(self) -> None:
        self.db.close()
        self._process.terminate()
        self._process.wait(60)

    def _make(self, content):
        path = self.settings.data_dir / f"made-{next(self._numbers)}"
        if isinstance(content, bytes):
            path.write_bytes(content)
            return path
        for name, data in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/v1/jobs", timeout=60).status_code == 401
        except requests.RequestException:
            return False


class Http(requests.Session):
    """A session with a key; paths that begin with / lead to the server."""

    def __init__(self, base: str, key: str | None):
        super().__init__()
        self.base = base
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def request(self, method, url, *args, **options):
        return super().request(method, self.base + url if url.startswith("/") else url, *args, **{"timeout": 30} | options)
