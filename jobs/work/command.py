"""Programs that a job runs: killed with it, their lines read as they come, their errors kept in the log."""

import os
import selectors
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.leash import tie_to_parent
from jobs.settings import PREFIX
from jobs.work import process

if TYPE_CHECKING:
    from jobs.work.context import Context

_TICK = 0.1       # seconds between looks at cancel and time-out
_CHUNK = 65536
_LONGEST = 65536  # bytes of a line; a longer one counts as several
_TAIL = 50        # lines of standard error that are kept at hand


@dataclass(frozen=True)
class Finished:
    """A program that has ended; `stderr_tail` holds the last lines of its standard error."""

    returncode: int
    stderr_tail: str


class ProcessFailed(Exception):
    """A program ended with another exit status than 0."""

    def __init__(self, argv: list[str], finished: Finished):
        last = finished.stderr_tail.strip().splitlines()[-1:] or ["it said nothing"]
        super().__init__(f"{Path(argv[0]).name} ended with {finished.returncode}: {last[0]}")
        self.returncode = finished.returncode
        self.stderr_tail = finished.stderr_tail


def run(job: "Context", argv: list[str], *, on_line: Callable[[str], None] | None, cwd: Path | None,
        env: dict[str, str] | None, check: bool, log: bool) -> Finished:
    """See `Context.run_process`. Without `on_line`, the output goes to the log as well, if `log`."""
    words = [os.fspath(word) for word in argv]
    errors = job.scratch("stderr")
    horse = os.getpid()
    take = on_line or (job.log if log else lambda line: None)
    with job.whole(), errors.open("wb") as sink:
        if env is None:     # settings, among them passwords, are none of the program's business
            env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink, cwd=cwd, env=env,
                                 preexec_fn=lambda: tie_to_parent(horse))
        try:
            tail = _Tail(errors, job.log if log else lambda line: None)
            for line in _lines(job, child, tail):
                take(line)
            returncode = child.wait()
            tail.read(end=True)
        finally:
            if child.returncode is None:
                process.end_tree(child.pid)
                child.wait()
            child.stdout.close()
    finished = Finished(returncode, "\n".join(tail.last))
    if check and returncode:
        raise ProcessFailed(words, finished)
    return finished


def _lines(job: "Context", child: subprocess.Popen, tail: "_Tail") -> Iterator[str]:
    """Each line of the output, without its end; looks out for cancel and time-out while it waits."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            ready = selector.select(_TICK)
            job.check()
            tail.read()
            if not ready:
                if child.poll() is not None:
                    break  # a grandchild holds the pipe open; the program itself is through
                continue
            data = os.read(child.stdout.fileno(), _CHUNK)
            if not data:
                break
            lines, rest = _split((rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
            for line in lines:
                yield line.decode(errors="replace")
        while _goes_on(child):  # it closed its output before its end
            job.check()
    if rest:
        yield rest.decode(errors="replace")


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """The lines that are complete, and the beginning of the next."""
    *lines, rest = data.split(b"\n")
    return (lines, rest) if len(rest) < _LONGEST else ([*lines, rest], b"")


def _goes_on(child: subprocess.Popen) -> bool:
    try:
        child.wait(_TICK)
    except subprocess.TimeoutExpired:
        return True
    return False


class _Tail:
    """Follows the file that a program writes its errors to."""

    def __init__(self, path: Path, take: Callable[[str], Any]):
        self._file = path.open("rb")
        self._take = take
        self._rest = b""
        self.last: deque[str] = deque(maxlen=_TAIL)

    def read(self, end: bool = False) -> None:
        """Hand on the lines that are complete; at the `end` what is left, too."""
        while data := self._file.read(_CHUNK):
            lines, self._rest = _split((self._rest + data).replace(b"\r\n", b"\n"))
            self._hand_on(lines)
            if not end:
                return
        if end:
            self._file.close()
            self._hand_on([self._rest] if self._rest else [])

    def _hand_on(self, lines: list[bytes]) -> None:
        for line in lines:
            text = line.decode(errors="replace")
            self.last.append(text)
            self._take(text)
