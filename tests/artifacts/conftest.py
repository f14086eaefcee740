"""Both stores, each as it is used: a folder on a disk, and a bucket of a real S3 server on loopback."""

import secrets
import socket
import subprocess
import sys
import time

import pytest

from jobs import settings as settings_module
from jobs.artifacts.store import open_store
from jobs.core import models
from jobs.db import Database
from tests.artifacts.given import House

S3_SETTINGS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """The URL of a running S3 server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("s3") / "log"
    process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                               stdout=log.open("wb"), stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="session")
def _bucket(s3_server):
    import boto3

    boto3.client("s3", endpoint_url=s3_server, aws_access_key_id="test", aws_secret_access_key="test",
                 region_name="us-east-1").create_bucket(Bucket="tests")
    return "tests"


@pytest.fixture
def bucket(_bucket, s3_server, monkeypatch):
    """The URL of a fresh place in a bucket; the environment tells every client where it is."""
    for name, value in (S3_SETTINGS | {"AWS_ENDPOINT_URL": s3_server}).items():
        monkeypatch.setenv(name, value)
    return f"s3://{_bucket}/{secrets.token_hex(4)}"


@pytest.fixture(params=["local", "s3"])
def kind(request):
    return request.param


@pytest.fixture
def settings(kind, tmp_path, request):
    given = {"s3": ("artifacts_url", "bucket"), "postgres": ("database_url", "postgres_url")}.get(kind)
    url = {given[0]: request.getfixturevalue(given[1])} if given else {}
    return settings_module.load({}, data_dir=tmp_path / "data", **url)


@pytest.fixture
def store(settings):
    return open_store(settings)


@pytest.fixture
def db(settings):
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    database = Database(settings)
    models.prepare(database, settings)
    yield database
    database.close()


@pytest.fixture
def made(store):
    """A local file, or a folder from a dict of contents, as a handler would have made it."""
    numbers = iter(range(1000))

    def make(content):
        path = store.scratch / f"made-{next(numbers)}"
        if isinstance(content, bytes):
            path.write_bytes(content)
            return path
        for name, data in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path

    return make


@pytest.fixture
def clock_file(tmp_path, monkeypatch):
    """Move everybody's clock: `clock_file(3600)`."""
    path = tmp_path / "clock"
    monkeypatch.setenv("ACCEPTED_TEST_CLOCK", str(path))
    return lambda seconds: path.write_text(str(seconds))


@pytest.fixture
def house(db, store, settings, made):
    return House(db, store, settings, made)
