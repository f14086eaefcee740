"""Shared fixtures, and the tally of what this machine could not run."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.stack import ROOT, Stack

CHROMIUM = "browser tests (no Chromium: apt-get install chromium)"
POSTGRES = "PostgreSQL tests (no server: apt-get install postgresql)"
NODE = "tests with JavaScript clients (no Node.js: apt-get install nodejs npm)"
_left_out: set[str] = set()


def _lacking(what: str):
    """Skip, and say so in the run's last line; in CI nothing may be missing."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI must run all: {what}", pytrace=False)
    _left_out.add(what)
    pytest.skip(what)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):     # one of several processes that share the run
        session.config.workeroutput["left_out"] = sorted(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", ()))


def pytest_unconfigure(config):
    if _left_out and not hasattr(config, "workerinput"):
        print("Left out: " + "; ".join(sorted(_left_out)))


@pytest.hookimpl(tryfirst=True)     # before any fixture of a wider scope runs the program
def pytest_runtest_setup(item):
    """Leave out a test marked `needs` where one of its programs is not installed, or `extra` where a module is not."""
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if not shutil.which(program):
                package = {"node": "nodejs"}.get(program, program)
                _lacking(f"tests that use {program} (not found: apt-get install {package})")
    for mark in item.iter_markers("extra"):
        extra, *modules = mark.args
        if not all(map(find_spec, modules)):
            _lacking(f"tests of an extra (not installed: ./run install {extra})")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One running server for all tests that need no more than that."""
    with Stack(tmp_path_factory.mktemp("server")) as stack:
        yield stack


@pytest.fixture
def stack(tmp_path):
    """A server of the test's own, not yet started: set `stack.settings[…]`, then `stack.start()`."""
    own = Stack(tmp_path)
    yield own
    own.stop()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    _lacking(CHROMIUM)


@pytest.fixture(scope="session")
def node() -> Callable[[str, Any], Any]:
    """Run a script of tests/javascript: `node("verify.mjs", given)` hands it JSON and gives what it prints as JSON.

    The public libraries that the scripts use are installed beside them when package.json has changed.
    """
    if not (shutil.which("npm") and shutil.which("node")):
        _lacking(NODE)
    folder = ROOT / "tests" / "javascript"
    wanted, installed = folder / "package.json", folder / "node_modules" / ".installed"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=folder,
                              capture_output=True, text=True)
        if done.returncode:
            _lacking(f"tests with JavaScript clients (npm cannot install them: {done.stderr.strip()[-200:]})")
        installed.write_bytes(wanted.read_bytes())

    def run(script: str, given: Any) -> Any:
        done = subprocess.run(["node", script], cwd=folder, input=json.dumps(given), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def postgres_server():
    """A private PostgreSQL server; gives the URL of its `postgres` database. Runs as user postgres when we are root."""
    tools = _postgres_tools()
    if tools is None:
        _lacking(POSTGRES)
    folder = Path(tempfile.mkdtemp(prefix="accepted-pg-"))      # not tmp_path: its user must be able to reach it
    as_user = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def run(tool, *args):
        command = [*as_user, tools / tool, *args]
        done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, f"{tool}: {done.stderr}"

    data = folder / "data"
    # No fsync: nothing here cuts the power, and emptying tables between tests would wait for the disk most of the time.
    options = f"-p {port} -c fsync=off -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    try:
        run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def new_postgres(postgres_server):
    """Makes an empty database and gives its URL, each time it is called."""
    import psycopg

    def make() -> str:
        name = f"test_{os.urandom(4).hex()}"
        with psycopg.connect(postgres_server.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")    # the quicker way where nothing is synced
        return f"{postgres_server.rpartition('/')[0]}/{name}"

    return make


@pytest.fixture
def postgres_url(new_postgres):
    """The URL of an empty database of the test's own."""
    return new_postgres()


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def new_database(request):
    """For tests that run on both: gives the ACCEPTED_DATABASE_URL of an empty database, each time it is called."""
    return request.getfixturevalue("new_postgres") if request.param == "postgresql" else lambda: ""


def _postgres_tools() -> Path | None:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return versions[-1].parent if versions else None
