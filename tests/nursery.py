"""Starts the server's processes by forking one that has imported everything: a start takes a tenth of a second, not two.

    nursery = Nursery()
    worker, = nursery.start("worker", environment=…, log=path)
    worker.send_signal(signal.SIGTERM), worker.wait()

What is forked is as good as fresh: there is one thread to fork from and no file is open but those it replaces; its
environment is the one it is given and nothing else; it ends as any Python process ends. What is started together shares a
process group of its own, led by the first; one `kill -9` of the group hits all at once. The nursery dies with the thread
that made it, and all that it started with the nursery.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jobs.leash import tie_to_parent

ROOT = Path(__file__).resolve().parent.parent
IMPORTED = ("app", "gunicorn.app.wsgiapp", "gunicorn.arbiter", "jobs.cli", "jobs.live_worker", "jobs.types",
            "jobs.work.dispatcher", "jobs.work.worker")


class Child:
    """A process of the nursery, with what tests use of subprocess.Popen."""

    def __init__(self, nursery: "Nursery", pid: int):
        self._nursery, self.pid, self.returncode = nursery, pid, None

    def poll(self) -> int | None:
        """The exit code; negative: the signal that ended it; None: it runs."""
        if self.returncode is None:
            self.returncode = self._nursery.ask(do="poll", pid=self.pid)
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        """The exit code, once there is one."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"process {self.pid} did not end within {timeout:g} s"
            time.sleep(0.01)
        return code

    def send_signal(self, signum: int) -> None:
        """To the process, if it has not ended. Its number is nobody else's before `poll` has told the end."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The one who asks. `listener` is the descriptor of the socket on which `web` is to serve."""

    def __init__(self, listener: int | None = None):
        fds = () if listener is None else (listener,)
        self._process = subprocess.Popen([sys.executable, "-m", "tests.nursery", *map(str, fds)], cwd=ROOT, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=fds,
                                         preexec_fn=partial(tie_to_parent, os.getpid()))
        self.pid = self._process.pid
        self._asking = threading.Lock()

    def start(self, *roles: str, environment: Mapping[str, str], log: Path) -> list[Child]:
        """Start a process for each of web, dispatcher, worker, with the present environment and `environment`."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("ACCEPTED_")}
        pids = self.ask(do="start", roles=roles, environment=outside | dict(environment), log=str(log))
        return [Child(self, pid) for pid in pids]

    def ask(self, **question: Any) -> Any:
        with self._asking:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@cache
def shared() -> Nursery:
    """One for all tests of this process."""
    return Nursery()


# The nursery itself


def web() -> None:
    """gunicorn, as the supervisor starts it."""
    from gunicorn.app import wsgiapp
    sys.argv = ["gunicorn", "-c", "python:jobs.gunicorn_conf", "--bind", f"fd://{sys.argv[1]}", "wsgi:app"]
    wsgiapp.run()


def of_cli(name: str) -> None:
    """A command of the command line."""
    from jobs.cli import cli
    cli([name])


ROLES = {"web": web, "dispatcher": partial(of_cli, "dispatcher"), "worker": partial(of_cli, "worker")}


def start(roles: Sequence[str], environment: Mapping[str, str], log: str) -> list[int]:
    """Fork for each; their pids. In a child: sets out to be what it was forked for, and never returns."""
    pids: list[int] = []
    nursery = os.getpid()
    for role in roles:
        group = pids[0] if pids else 0
        pid = os.fork()
        if not pid:
            os.setpgid(0, group)
            tie_to_parent(nursery)
            become(role, environment, log)
        os.setpgid(pid, group)
        pids.append(pid)
    return pids


def become(role: str, environment: Mapping[str, str], log: str) -> None:
    """Be a process of that role to its end. Nothing in our callers catches what ends it."""
    os.environ.clear()
    os.environ.update(environment)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)):
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.dup2(1, 2)
    ROLES[role]()
    sys.exit()


def poll(pid: int) -> int | None:
    """The exit code of a child, given once; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def held() -> tuple[set[int], int]:
    """The descriptors that are open here, and the number of threads."""
    open_here = set()
    for descriptor in range(256):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            open_here.add(descriptor)
    return open_here, len(os.listdir("/proc/self/task")) if sys.platform == "linux" else threading.active_count()


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    assert held() == ({0, 1, 2, *map(int, sys.argv[1:])}, 1), f"imports have left {held()}: what is forked is not fresh"
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps({"start": start, "poll": poll}[question.pop("do")](**question)), flush=True)


if __name__ == "__main__":
    main()
