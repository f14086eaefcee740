"""The list of jobs as a file: CSV for spreadsheets, JSON for programs. Sent page by page as it is read."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from flask import Response

from jobs import clock
from jobs.core import reads
from jobs.core.states import Priority
from jobs.db import Database, Row
from jobs.web import auth, filters
from jobs.web.dashboard import search
from jobs.web.site import base_url, site

_PAGE = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = ("id", "type", "status", "priority", "owner", "tags", "attempt", "createdAt", "startedAt", "finishedAt", "seconds", "problem",
           "detail", "payload")


def export(form: str) -> Response:
    """Every job that fits the filter of the address, newest first; payloads too big for a list are left out."""
    wanted = filters.scoped(search.of_address().wanted(), auth.caller())
    pages = _pages(site().db, wanted) if wanted is not None else iter(())
    if form == "csv":
        response = Response(_csv(pages), content_type="text/csv; charset=utf-8")
    else:
        response = Response(_json(pages, base_url()), content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="jobs.{form}"'
    return response


def _pages(db: Database, wanted: dict[str, Any]) -> Iterator[list[Row]]:
    before = None
    while rows := reads.page(db.read(), _PAGE, before=before, **wanted):
        yield rows
        before = rows[-1].id


def _csv(pages: Iterator[list[Row]]) -> Iterator[str]:
    yield "\ufeff" + _lines([COLUMNS])  # by the mark a spreadsheet knows that it is UTF-8
    for rows in pages:
        yield _lines(_cells(row) for row in rows)


def _json(pages: Iterator[list[Row]], base: str) -> Iterator[str]:
    separator = "["
    for rows in pages:
        yield separator + ",\n".join(reads.render(row, base) for row in rows)
        separator = ",\n"
    yield "[]\n" if separator == "[" else "]\n"


def _lines(rows: Iterable[Iterable[Any]]) -> str:
    target = io.StringIO()
    csv.writer(target).writerows([[disarmed(cell) for cell in row] for row in rows])
    return target.getvalue()


def disarmed(cell: Any) -> str:
    """The cell's text, which no spreadsheet takes for a formula (OWASP, CSV injection)."""
    text = "" if cell is None else str(cell).replace("\0", "␀")
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cells(row: Row) -> tuple:
    error = json.loads(row.error) if row.error else {}
    took = None
    if row.started_at and row.finished_at:
        took = f"{(clock.parse(row.finished_at) - clock.parse(row.started_at)).total_seconds():.3f}"
    return (row.id, row.type, row.status, Priority.of(row.priority), row.owner, ", ".join(json.loads(row.tags)), row.attempt,
            row.created_at, row.started_at, row.finished_at, took, error.get("title"), error.get("detail"), row.payload)
