"""Job types that misbehave in every way the worker has to live with."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from marshmallow import fields

from jobs import Problem, Retry, job_type

_ANY = {"path": fields.Str(load_default=None, allow_none=True), "how": fields.Str(load_default=None, allow_none=True)}
_kept = []


def note(path, text):
    """Append a line in one write."""
    with open(path, "a") as file:
        file.write(f"{text}\n")


@job_type("test.lacking", requires=("no_such_library",), extra="sugar")
def lacking(job):
    """Cannot run here, although it was accepted elsewhere."""


@job_type("test.pid", payload=_ANY)
def pid(job, path, how):
    """Say who and when."""
    now = time.time()
    if path:
        note(path, f"{job.id}:{job.attempt}")
    return {"pid": os.getpid(), "parent": os.getppid(), "at": now, "trace": job.traceparent}


@job_type("test.sleep", payload=_ANY | {"seconds": fields.Float(load_default=600)})
def sleep(job, path, how, seconds):
    """Sleep in one call, without a look at the Context; tell when it started."""
    note(path, f"{job.id}:{job.attempt}:{os.getpid()}")
    time.sleep(0 if how == "first" and job.attempt > 1 else seconds)
    note(path, f"{job.id}:{job.attempt}:done")


@job_type("test.stubborn", payload=_ANY)
def stubborn(job, path, how):
    """Do not want to stop."""
    note(path, os.getpid())
    while True:
        try:
            if how == "c-loop":
                sum(itertools.repeat(0))
            time.sleep(0.05)
        except Exception:
            pass
        except BaseException:
            if how != "everything":
                raise


@job_type("test.children", payload=_ANY | {"then": fields.Str(load_default="wait")})
def children(job, path, how, then):
    """Start a child, one in a session of its own, and an orphan in another; note all pids, the own one first."""
    note(path, os.getpid())
    note(path, subprocess.Popen(["sleep", "600"]).pid)
    note(path, subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
    subprocess.run(["sh", "-c", f"setsid sleep 600 & echo $! >> {path}"])
    while then == "wait":
        time.sleep(1)
    while then == "poll":
        job.progress(1, 10)
        time.sleep(0.05)
    return os.getpid()


@job_type("test.leak", payload=_ANY)
def leak(job, path, how):
    """Leave something changed."""
    match how:
        case "cwd":
            os.chdir("/")
        case "environment":
            os.environ["LEAKED"] = "1"
        case "umask":
            os.umask(0o007)
        case "signals":
            signal.signal(signal.SIGUSR1, lambda *_: None)
        case "threads":
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        case "files":
            _kept.append(open(os.devnull))
    return os.getpid()


@job_type("test.returns", payload=_ANY)
def returns(job, path, how):
    """Return what cannot be kept."""
    return {"nan": float("nan"), "set": {1}, "long": "x" * 5000, "surrogate": "\ud800", "bytes": b"x", "tuple": (1, (2,)),
            "big": 2**70, "none": None}[how]


@job_type("test.raises", payload=_ANY)
def raises(job, path, how):
    """Raise."""
    match how:
        case "problem":
            raise Problem("test-broken", "as asked", status=409, title="It is broken")
        case "retry" if job.attempt == 1:
            raise Retry(after=0.2, reason="not yet")
        case "exception" if job.attempt == 1:
            raise ValueError("secret stack")
        case "exit":
            os._exit(3)
        case "system-exit" if job.attempt == 1:
            sys.exit(3)
    return job.attempt


def _undo(job, path, how):
    note(path, f"undo {job.id}:{job.attempt}")
    job.log("cleaned")


@job_type("test.undone", payload=_ANY, cleanup=_undo)
def undone(job, path, how):
    """Leave something that the clean-up removes."""
    note(path, f"do {job.id}:{job.attempt}")
    if job.attempt > 1:
        return None
    match how:
        case "problem":
            raise Problem("test-broken")
        case "poll":
            for _ in job.track(range(10_000)):
                time.sleep(0.05)
        case "sleep":
            time.sleep(600)
        case "exit":
            os._exit(1)
    return None


@job_type("test.process", payload=_ANY | {"argv": fields.List(fields.Str())})
def process(job, path, how, argv):
    """Run a program."""
    seen = []
    finished = job.run_process([sys.executable, *argv], on_line=seen.append if how == "lines" else None, check=how != "unchecked")
    return {"lines": seen, "returncode": finished.returncode, "errors": finished.stderr_tail, "workdir": str(job.workdir)}


@job_type("test.progress", payload=_ANY)
def progress(job, path, how):
    """Report in odd ways."""
    match how:
        case "backwards":
            for done in (10, 60, 30, 200):
                job.progress(done, 100, f"at {done}")
                while not Path(f"{path}-{done}").exists():
                    time.sleep(0.01)
        case "unknown":
            while True:
                job.progress(1)
                time.sleep(0.1)
        case "fast":
            for done in range(100_000):
                job.progress(done, 100_000)
        case "burst":
            job.progress(50, 100, "half")
            time.sleep(600)
    raise Problem("test-broken", "the last value stays")


@job_type("test.files", payload=_ANY | {"source": fields.Raw(load_default=None)})
def files(job, path, how, source):
    """Leave files and read them."""
    if how == "read":
        return job.open_input(source).read_text()
    with job.artifact("naïve 名.csv", "text/csv") as out:
        out.write("a,b\r\n")
        if how == "raise":
            raise Problem("test-broken")
    with job.artifact("raw.bin") as raw:
        raw.write(b"0123456789")
        if how == "seek":
            raw.seek(0)
            raw.write(b"X")
    with job.artifact_folder("pages") as folder:
        (folder / "sub").mkdir()
        (folder / "index.html").write_text("<p>")
        (folder / "sub" / "a.txt").write_text("a")
    if how == "fail-late":
        raise Problem("test-broken")
    return [(one.id, one.href, one.url, one.expires_at) for one in (out, raw, folder)]


@job_type("test.limited", payload=_ANY, concurrency=1)
def limited(job, path, how):
    """At most one at a time."""
    note(path, "in")
    time.sleep(0.3)
    note(path, "out")
