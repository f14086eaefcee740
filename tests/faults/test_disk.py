"""A disk that is full, or read-only: nothing is promised that cannot be kept, and all goes on by itself afterwards.

The data folder is a small tmpfs in a mount namespace of its own, which needs root.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.conftest import _lacking
from tests.faults.storm import TYPES
from tests.stack import ROOT, Api, Stack, wait_for

MOUNTS = "tests on full disks (they need root and unshare)"


@pytest.fixture(scope="module", autouse=True)
def mounts():
    """Skips where no file system can be mounted."""
    trial = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
    try:
        able = subprocess.run(trial, capture_output=True).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        _lacking(MOUNTS)


class Cramped(Stack):
    """A server whose data folder is a disk of a few megabytes that no other process sees by its path."""

    SIZE = "6m"

    def command(self, *args):
        self.settings["admin_key"] = "acc_admin"
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=$1 tmpfs "$2" && shift 2 && exec "$@"', "sh", self.SIZE,
                 self.settings["data_dir"], sys.executable, "-m", "jobs.cli", *args],
                cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.data = Path(f"/proc/{process.pid}/root{self.settings['data_dir']}")
        return process

    def fill(self):
        """Use up the disk to the last byte."""
        with (self.data / "filler").open("ab", buffering=0) as filler:
            try:
                while filler.write(b"\0" * 4096):
                    pass
            except OSError as error:
                assert error.errno == 28

    def make_room(self):
        (self.data / "filler").unlink()


@pytest.fixture
def cramped():
    with tempfile.TemporaryDirectory(prefix="acc-") as folder:
        (Path(folder) / "data").mkdir()
        stack = Cramped(folder, lease="1500ms", heartbeat="300ms", job_modules=TYPES)
        yield stack.start()
        stack.stop()


def test_a_full_disk_promises_nothing_and_loses_nothing(cramped):
    admin, notes = Api(cramped.url, cramped.key), cramped.folder / "notes"
    promised = {int(admin.submit("test.line", path=str(notes))["id"])}
    long = admin.submit("test.line", {"maxAttempts": 1}, path=str(notes), seconds=2)["id"]
    admin.reached(long, {"running"})

    refused = None
    for _ in range(40):     # the dispatcher's checkpoints may find some room again in what was in use
        cramped.fill()
        answer = admin.post("/v1/jobs", json={"type": "demo.drill", "payload": {"seconds": 0, "value": "x" * 300_000}})
        if answer.status_code != 202:
            refused = answer
            break
        promised.add(int(answer.json()["id"]))
    assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (507, "storage-full")
    assert int(refused.headers["Retry-After"]) > 0
    ready = admin.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, 503)
    assert admin.get("/livez").status_code == 200 and admin.job(long)["id"] == long

    # The job ends while nothing can be written, and its lease runs out meanwhile: that is nobody's fault.
    end = time.monotonic() + 4
    while time.monotonic() < end:
        cramped.fill()
        time.sleep(0.05)
    cramped.make_room()

    wait_for(lambda: admin.get("/readyz").status_code == 200, what="the server to recover")
    job = admin.finished(long)
    assert (job["status"], job["attempt"]) == ("succeeded", 1), cramped.output()[-3000:]
    promised |= {int(long), int(admin.submit("test.line", path=str(notes))["id"])}
    wait_for(lambda: all(admin.job(str(id))["status"] == "succeeded" for id in promised), what="all jobs")
    look = ["nsenter", "-m", "-t", str(cramped.process.pid), sys.executable, "-c", LOOK, *map(str, sorted(promised))]
    subprocess.run(look, cwd=ROOT, env=cramped.environment | {"NOTES": str(notes), "PYTHONPATH": str(ROOT)}, check=True)
    assert cramped.pids("worker") and "ended with" not in cramped.output(), "nothing died of it"


LOOK = """
import os, sys, types
from pathlib import Path
from tests.faults import books
database = books.open_books(types.SimpleNamespace(environment=os.environ))
books.check(database.read(), set(map(int, sys.argv[1:])), Path(os.environ["NOTES"]).read_text().split())
"""


READ_ONLY = """
import os, subprocess, sys
from pathlib import Path
from app import create_app
from jobs import settings
from jobs.core import access, models
from jobs.db import Database
from jobs.webhooks import models as _tables

folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
given = settings.load({}, data_dir=folder)
database = Database(given)
models.prepare(database, given)
token = database.write(lambda tx: access.make_key(tx, "alice", "submit"))
database.close()
headers = {"Authorization": "Bearer " + token}
drill = {"type": "demo.drill", "payload": {}}
if os.fork() == 0:      # a process of its own: what it has open ends with it
    os._exit(create_app(given).test_client().post("/v1/jobs", json=drill, headers=headers).status_code != 202)
assert os.wait()[1] == 0

subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
client = create_app(given).test_client()
answer = client.post("/v1/jobs", json=drill, headers=headers)
assert answer.status_code == 503 and answer.json["type"].endswith("/storage-unavailable"), answer.text
assert int(answer.headers["Retry-After"]) > 0
assert client.get("/readyz").status_code == 503 and client.get("/livez").status_code == 200

subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
assert client.get("/readyz").status_code == 200
answer = client.post("/v1/jobs", json=drill, headers=headers)
assert (answer.status_code, answer.json["id"]) == (202, "2"), answer.text
"""


def test_a_read_only_disk_refuses_and_recovers(tmp_path):
    done = subprocess.run(["unshare", "-m", sys.executable, "-c", READ_ONLY, tmp_path], cwd=ROOT, capture_output=True, text=True,
                          env={name: value for name, value in os.environ.items() if not name.startswith("ACCEPTED_")})
    assert done.returncode == 0, done.stderr[-3000:]
