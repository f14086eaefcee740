"""A job's log as a file."""

from collections.abc import Iterator

from flask import Response

from jobs.core import journal
from jobs.db import Database
from jobs.web.api import find
from jobs.web.site import site

_PAGE = 2000  # lines read at a time


def download(job_id: int) -> Response:
    """Every line, its time before it; sent as it is read, so that a long log costs no more memory than a short one."""
    row = find(job_id)
    response = Response(_lines(site().db, row.id), content_type="text/plain; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="job-{row.id}.log.txt"'
    return response


def _lines(db: Database, job_id: int) -> Iterator[str]:
    after = 0
    while lines := journal.read(db.read(), job_id, after, _PAGE):
        yield "".join(f"{line.created_at} {line.line}\n" for line in lines)
        after = lines[-1].id
