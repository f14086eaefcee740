"""The server's own jobs as a data source, read a page at a time: a long read would keep SQLite's log from a reset."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jobs import clock
from jobs.core.states import Priority, Status
from jobs.db import Reader, Row
from jobs.errors import Problem, Retry, StorageUnavailable
from jobs.types.report.sources import EVERYBODY, Param, Query, Rows, Source

if TYPE_CHECKING:
    from jobs.work.context import Context

_PAGE = 500
_CONDITIONS = {"since": "created_at >= :since", "until": "created_at < :until", "type": "type = :type",
               "status": "status = :status", "owner": "owner = :owner"}
_SPAN = {"since": Param("datetime", required=False), "until": Param("datetime", required=False),
         "type": Param(required=False), "owner": Param(required=False)}
_STATUS = {"status": Param(required=False, choices=tuple(map(str, Status)))}


def _time(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name] and clock.parse(row[name])


def _of_error(member: str) -> Callable[[Row], Any]:
    return lambda row: json.loads(row.error).get(member) if row.error else None


def _problem(row: Row) -> str | None:
    """The slug of the job's problem."""
    return json.loads(row.error)["type"].rpartition("/")[2] if row.error else None


_ALL = {
    "id": lambda row: row.id, "type": lambda row: row.type, "status": lambda row: row.status,
    "owner": lambda row: row.owner, "queue": lambda row: row.queue, "priority": lambda row: str(Priority.of(row.priority)),
    "tags": lambda row: json.loads(row.tags), "attempts": lambda row: row.attempt, "created_at": _time("created_at"),
    "started_at": _time("started_at"), "finished_at": _time("finished_at"), "resource": lambda row: row.resource,
    "retry_of": lambda row: row.retry_of, "problem": _problem}
_FAILED = {name: _ALL[name] for name in ("id", "type", "owner", "attempts", "created_at", "finished_at", "problem")} | {
    "title": _of_error("title"), "detail": _of_error("detail")}
_READ = """id, type, status, owner, queue, priority, tags, attempt, created_at, started_at, finished_at, resource,
    retry_of, error"""
_COUNTED = {"queued": Status.QUEUED, "running": Status.RUNNING, "succeeded": Status.SUCCEEDED, "failed": Status.FAILED,
            "cancelled": Status.CANCELLED, "partial_success": Status.PARTIAL}


@contextmanager
def _open(job: "Context", _: Source, query: Query, values: dict[str, Any]) -> Iterator[Rows]:
    """The jobs that the submission may see: its owner's, or, as was written down when it was accepted, more."""
    given = {name: value for name, value in values.items() if value is not None}
    given.setdefault("owner", job.owner)
    if given["owner"] == EVERYBODY:
        del given["owner"]
    if query.name == "failed":
        given["status"] = str(Status.FAILED)
    for name in given.keys() & {"since", "until"}:
        given[name] = clock.wire(given[name])
    where = " AND ".join(["purged_at IS NULL", *(_CONDITIONS[name] for name in given)])
    with _answering():
        if query.name == "by-type":
            rows = _by_type(job.records, where, given)
        else:
            rows = _each(job.records, _FAILED if query.name == "failed" else _ALL, where, given)
    yield rows


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except StorageUnavailable as error:
        detail = f"The server's own database does not answer: {error}"
        raise Retry(problem=Problem("source-unavailable", detail)) from error


SOURCE = Source("jobs", {query.name: query for query in (
    Query("all", "", _SPAN | _STATUS), Query("failed", "", _SPAN), Query("by-type", "", _SPAN | _STATUS))}, open=_open)


def _each(records: Reader, columns: dict[str, Callable[[Row], Any]], where: str, given: dict[str, Any]) -> Rows:
    last = records.value("SELECT max(id) FROM jobs") or 0       # those that come meanwhile are left out
    total = records.value(f"SELECT count(*) FROM jobs WHERE {where} AND id <= :last", last=last, **given)

    def batches() -> Iterator[list[tuple]]:
        after = 0
        while True:
            with _answering():
                page = records.all(f"SELECT {_READ} FROM jobs WHERE {where} AND id > :after AND id <= :last "
                                   f"ORDER BY id LIMIT {_PAGE}", after=after, last=last, **given)
            if not page:
                return
            after = page[-1].id
            yield [tuple(value(row) for value in columns.values()) for row in page]

    return Rows(list(columns), total, batches())


def _by_type(records: Reader, where: str, given: dict[str, Any]) -> Rows:
    counts = ", ".join(f"sum(CASE WHEN status = '{status}' THEN 1 ELSE 0 END) AS {name}"
                       for name, status in _COUNTED.items())
    rows = records.all(f"SELECT type, count(*) AS jobs, {counts}, min(created_at) AS first, max(created_at) AS last "
                       f"FROM jobs WHERE {where} GROUP BY type ORDER BY type", **given)
    found = [(row.type, row.jobs, *(row[name] for name in _COUNTED), clock.parse(row.first), clock.parse(row.last))
             for row in rows]
    names = ["type", "jobs", *_COUNTED, "first_created_at", "last_created_at"]
    return Rows(names, len(found), [found] if found else [])
