"""What a handler is given: `job`, by which it reports, leaves artifacts, reads inputs and runs programs.

Each call is safe against the time-out, which waits until the call is through, and each is a place where a cancelled job
stops. Calls may come from any thread of the handler.
"""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from jobs import clock
from jobs.db import Database, Reader, Row
from jobs.downloads import Fetched
from jobs.settings import Settings
from jobs.work import command, inputs, outputs
from jobs.work.alarm import Alarm, JobCancelled
from jobs.work.channel import Channel
from jobs.work.meter import Meter
from jobs.work.secrets import Cover

MAX_LINE = 4_000       # characters of one line of the log
MAX_LINES = 20_000     # lines of one attempt
_LISTEN_EVERY = 0.02   # seconds; a handler may ask a million times a second whether it is cancelled
T = TypeVar("T")


def workdir_of(settings: Settings, job_id: int, attempt: int) -> Path:
    """The temporary folder of an attempt."""
    return settings.data_dir / "work" / f"{job_id}-{attempt}"


def discard_earlier(settings: Settings, job_id: int, attempt: int) -> None:
    """Remove what earlier attempts at a job left in their temporary folders on this machine, killed with their worker."""
    for earlier in range(1, attempt):
        shutil.rmtree(workdir_of(settings, job_id, earlier), ignore_errors=True)


class Context:
    """One attempt at a job, as its handler sees it."""

    def __init__(self, row: Row, settings: Settings, db: Database, channel: Channel, alarm: Alarm):
        self.settings = settings
        self.skipped: list[dict[str, str]] = []
        self.described: dict[str, Any] = {}
        self.has_told = False
        self.cover = Cover(row)
        self._row = row
        self._db = db
        self._channel = channel
        self._alarm = alarm
        self._lock = threading.RLock()
        self._meter = Meter()
        self._cancel_requested = False
        self._heeds_cancel = True
        self._heard_at = 0.0
        self._lines = 0
        self._outputs = 0
        self._workdir: Path | None = None

    # Who and where

    @property
    def id(self) -> str:
        """The job's id."""
        return str(self._row.id)

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._row.attempt

    @property
    def owner(self) -> str:
        """Whose job it is."""
        return self._row.owner

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that came with the submission; pass it on in requests of your own."""
        return self._row.traceparent

    @property
    def resource(self) -> str | None:
        """The path of the business resource that the job makes, if its type has a collection."""
        return self._row.resource

    @property
    def workdir(self) -> Path:
        """A temporary folder of this attempt, made at the first use and removed after the job."""
        if self._workdir is None:
            folder = workdir_of(self.settings, self._row.id, self._row.attempt)
            shutil.rmtree(folder, ignore_errors=True)
            self._workdir = self.private(folder)
        return self._workdir

    # Telling

    def progress(self, done: float, total: float | None = None, stage: str | None = None) -> None:
        """Report that `done` of `total` is done; without a total only that the job lives. Stops here when cancelled."""
        self.check()
        self._tell_progress(self._meter.move(done, total, stage))

    def stage(self, text: str) -> None:
        """Say in a few words what the job does now."""
        self.check()
        self._tell_progress(self._meter.name(text))

    def track(self, iterable: Iterable[T], stage: str | None = None, total: int | None = None) -> Iterator[T]:
        """Yield each item and report how many are through; stops here when cancelled."""
        if total is None:
            total = len(iterable) if hasattr(iterable, "__len__") else None
        self.progress(0, total, stage)
        for done, item in enumerate(iterable, 1):
            yield item
            self.progress(done, total)

    def log(self, text: str) -> None:
        """Write to the job's log; each line of the text becomes one."""
        lines = str(text).encode(errors="replace").decode().replace("\0", "\ufffd").splitlines() or [""]
        with self._lock:
            room = MAX_LINES - self._lines
            self._lines += len(lines)
            if len(lines) >= room > 0:
                lines = [*lines[:room - 1], f"(The log ends here: an attempt may write {MAX_LINES} lines.)"]
            at = clock.wire(clock.now())
            lines = [line if len(line) <= MAX_LINE else line[:MAX_LINE - 1] + "…" for line in lines[:max(room, 0)]]
            if lines:
                self._tell("log", lines=[[at, line] for line in lines])
        self.check()

    def skip(self, part: str, reason: str) -> None:
        """Go on without a part; the job then ends as partialSuccess and names it."""
        self.skipped.append({"part": str(part), "detail": str(reason)})
        self.check()

    def describe(self, **members: Any) -> None:
        """Members of the business resource, for a job whose result is not what the resource should show."""
        self.described |= members
        self.check()

    # Cancelling

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked to cancel the job. Every call here stops then; ask only if you must do so yourself."""
        self._listen()
        return self._cancel_requested

    def check(self) -> None:
        """Stop here if the job is cancelled (raises JobCancelled) or out of time (JobTimedOut)."""
        self._listen()
        if self._cancel_requested and self._heeds_cancel:
            raise JobCancelled

    @contextmanager
    def uncancelled(self) -> Iterator[None]:
        """For the clean-up, which must be able to use the Context although the job is cancelled."""
        self._heeds_cancel, before = False, self._heeds_cancel
        try:
            yield
        finally:
            self._heeds_cancel = before

    # Files and programs

    def artifact(self, name: str, media_type: str | None = None) -> AbstractContextManager[IO]:
        """Leave a file: `with job.artifact("a.csv", "text/csv") as out`. It appears whole at the end of the block.

        A text file for text/*, else a binary one. After the block `out.id`, `out.href` (`/v1/artifacts/7`), and the
        signed, absolute `out.url` with `out.expires_at`. If the block raises, nothing appears.
        """
        self.check()
        return outputs.file(self, name, media_type)

    def artifact_folder(self, name: str) -> AbstractContextManager[Path]:
        """Leave a folder of files that belong together, served as one artifact: fill the Path that the block gets."""
        self.check()
        return outputs.folder(self, name)

    def artifact_of(self, path: Path, name: str, media_type: str | None = None, sha256: str | None = None) -> Any:
        """Make a finished file, one in the workdir, an artifact without a copy; `.id`, `.href`, `.url`, `.expires_at`."""
        self.check()
        return outputs.whole_file(self, path, name, media_type, sha256)

    def open_input(self, source: str | int) -> Path:
        """A local file with what `source` names: an artifact's id or url, or an http(s) address. Only to be read.

        Problem `unknown-input` (422) if the job's owner may not read it, `target-forbidden`, `source-unavailable`.
        """
        self.check()
        return inputs.open_input(self, source)

    def name_of(self, source: str | int) -> str:
        """What the file is called that `source` names: an artifact's name, or the last part of an address."""
        self.check()
        return inputs.name_of(self, source)

    def fetch(self, url: str, to: Path | None = None, max_bytes: int | None = None) -> Path:
        """Download an http(s) address, guarded against inner networks, into `to` or a file in the workdir."""
        self.check()
        return inputs.fetch(self, url, to, max_bytes)

    def fetch_on(self, url: str) -> tuple[Path, Fetched]:
        """Download an http(s) address with its progress told, going on from where an earlier attempt at this job, or the
        job that this one retries, broke off on this machine."""
        self.check()
        return inputs.fetch_on(self, url)

    def run_process(self, argv: list[str], *, on_line: Callable[[str], None] | None = None, cwd: Path | None = None,
                    env: dict[str, str] | None = None, check: bool = True, log: bool = True) -> command.Finished:
        """Run a program; it is killed with the job. `on_line` gets each line of its output, its errors go to the log.

        Standard input is closed. ProcessFailed if `check` and the exit status is not 0.
        """
        self.check()
        return command.run(self, argv, on_line=on_line, cwd=cwd, env=env, check=check, log=log)

    # For our own modules

    @property
    def records(self) -> Reader:
        """The server's own records, to be read a page at a time."""
        return self._db.read()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Hold the time-out off for something that must not be left half done."""
        with self._alarm.held():
            yield

    def private(self, folder: Path) -> Path:
        """A folder among the working ones, made for nobody but us if it is not there."""
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        return folder

    def scratch(self, name: str) -> Path:
        """A path in the workdir that nothing else uses; its name ends like `name`."""
        with self._lock:
            self._outputs += 1
            return Path(tempfile.mkdtemp(prefix=f"{self._outputs}-", dir=self.workdir)) / name

    def close(self) -> None:
        """Remove what was temporary."""
        if self._workdir is not None:
            shutil.rmtree(self._workdir, ignore_errors=True)
            self._workdir = None

    def _tell_progress(self, change: dict[str, Any] | None) -> None:
        if change:
            self._tell("progress", **change)

    def _tell(self, what: str, **members: Any) -> None:
        with self._alarm.held():
            self.has_told = True
            self._channel.send(tell=what, **self.cover(members))

    def _listen(self) -> None:
        now = clock.monotonic()
        if now - self._heard_at < _LISTEN_EVERY:
            return
        with self._alarm.held(), self._lock:
            self._heard_at = now
            while (order := self._channel.receive()) is not None:
                self._cancel_requested |= order["do"] == "cancel"
