"""What a job reads: uploads and artifacts of its owner, and downloads from outside."""

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from jobs import partials
from jobs.artifacts import names, records
from jobs.artifacts.store import open_store
from jobs.db import Row
from jobs.downloads import Fetched, download
from jobs.errors import Problem
from jobs.settings import Settings
from jobs.targets import Guard
from jobs.work.alarm import JobCancelled

if TYPE_CHECKING:
    from jobs.work.context import Context

_ARTIFACT = re.compile(r"(?:/v1/artifacts/)?(\d{1,18})(?:/content|/signed/.+)?")


def artifact_id(source: str | int, base_url: str) -> int | None:
    """The id of the artifact that `source` names (an id, `/v1/artifacts/7[/content]`, or that under our own URL)."""
    match = _ARTIFACT.fullmatch(str(source).removeprefix(base_url))
    return int(match[1]) if match else None


def open_input(job: "Context", source: str | int) -> Path:
    """See `Context.open_input`."""
    number = artifact_id(source, job.settings.base_url)
    if number is not None:
        return _stored(job, number)
    if re.match(r"https?://", str(source), re.IGNORECASE):
        return fetch(job, str(source))
    raise Problem("unknown-input", f"{source} is neither an artifact nor an http or https address.")


def name_of(job: "Context", source: str | int) -> str:
    """See `Context.name_of`."""
    number = artifact_id(source, job.settings.base_url)
    return _row(job, number).name if number is not None else names.clean(unquote(urlsplit(str(source)).path))


def _row(job: "Context", number: int) -> Row:
    with job.whole():
        row = records.readable_by_job(job._db.read(), number, job._row)
    if row is None or row.kind == "folder":
        raise Problem("unknown-input", f"There is no artifact {number}.")
    return row


def _stored(job: "Context", number: int) -> Path:
    row = _row(job, number)
    store = open_store(job.settings)
    local = store.local_path(row.key)
    if local is None:
        local = job.scratch("input")
        store.fetch(row.key, local)
    return local


def fetch(job: "Context", url: str, to: Path | None = None, max_bytes: int | None = None) -> Path:
    """See `Context.fetch`."""
    target = to or job.scratch("download")
    download(Guard(job.settings.allowed_targets), url, target, max_bytes=max_bytes or job.settings.max_upload,
             timeout=job._row.timeout, on_progress=lambda done, total: job.check())
    return target


def fetch_on(job: "Context", url: str) -> tuple[Path, Fetched]:
    """See `Context.fetch_on`."""
    kept, before = job.private(kept_of(job.settings, job._row.id)), kept_of(job.settings, job._row.retry_of)
    target, whole = kept / str(job.attempt), job.scratch("download")
    try:
        got = download(Guard(job.settings.allowed_targets), url, target, max_bytes=job.settings.max_upload,
                       timeout=job._row.timeout, on_progress=job.progress, resume=True,
                       earlier=partials.waiting(kept) + partials.waiting(before))
        target.rename(whole)
    except JobCancelled:
        partials.clear(kept)
        raise
    finally:
        partials.discard(kept)
        partials.discard(before)
    return whole, got


def kept_of(settings: Settings, job_id: int | None) -> Path:
    """Where what the attempts at a job have fetched waits for the next; swept after an hour in which nobody touched it."""
    return settings.data_dir / "work" / f"{job_id or 0}-kept"
