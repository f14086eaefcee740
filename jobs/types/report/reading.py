"""Asking a database: SQLAlchemy, a connection that can only read, and rows as a stream.

Only this module touches databases of the operator. Nothing is ever committed.
"""

import math
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jobs import clock
from jobs.errors import Problem, Retry
from jobs.types.report.sources import Query, Rows, Source
from jobs.work.alarm import JobTimedOut

if TYPE_CHECKING:
    from sqlalchemy import Connection, CursorResult, Engine, TextClause
    from sqlalchemy.exc import DBAPIError

    from jobs.work.context import Context

_BATCH = 500             # rows that are in memory at once
_LOOK = 0.2              # seconds between two looks at the clock and for a cancel
_CONNECT = 10            # seconds
_TOO_SLOW = {"57014", 3024, 1969}      # PostgreSQL's SQLSTATE, and the numbers of MySQL and MariaDB
_NO_FAULT_OF_SQL = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
_MAKE_READ_ONLY = {
    "postgresql": ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET statement_timeout = {ms}",
                   "SET TIME ZONE 'UTC'"),
    "mysql": ("SET SESSION TRANSACTION READ ONLY", "SET SESSION max_execution_time = {ms}"),
    "mariadb": ("SET SESSION TRANSACTION READ ONLY", "SET SESSION max_statement_time = {ms} / 1000")}


@contextmanager
def open_(job: "Context", source: Source, query: Query, values: dict[str, Any]) -> Iterator[Rows]:
    """The rows of a query. Problem when the query is at fault or too slow; Retry when the source does not answer."""
    from sqlalchemy.exc import ArgumentError, DBAPIError

    asking = _Asking(job, source, query)
    try:
        engine = asking.engine()
    except ArgumentError:
        detail = f"SQLAlchemy has no dialect for the url of {source.name}."
        raise Problem("report-query-failed", detail) from None
    try:
        with engine.connect() as connection, asking.watched(connection.connection.driver_connection):
            asking.step()
            statement, values = asking.statement(), _bound(values, connection.dialect.name)
            total = asking.count(connection, values) if query.count else None
            asking.step()
            result = connection.execution_options(stream_results=True, yield_per=_BATCH).execute(statement, values)
            yield Rows(_unique(list(result.keys())), total, asking.batches(result))
    except DBAPIError as error:
        raise asking.fault(error) from error
    finally:
        engine.dispose()


class _Asking:
    """One query of one job: its connection, its clock, and what its faults mean."""

    def __init__(self, job: "Context", source: Source, query: Query):
        self._job, self._source, self._query = job, source, query
        self._connected = self._slow = False
        self._until = math.inf

    def step(self) -> None:
        """The database gets its time anew for what comes next."""
        self._until = clock.monotonic() + self._source.timeout

    def engine(self) -> "Engine":
        """An engine whose every connection can only read."""
        from sqlalchemy import create_engine, event
        from sqlalchemy.engine import make_url
        from sqlalchemy.pool import NullPool

        url = make_url(self._source.url)
        dialect = url.get_backend_name()
        given: dict[str, Any] = {}
        if url.get_driver_name() in ("psycopg", "psycopg2"):
            given = {"connect_args": {"connect_timeout": _CONNECT}}
        elif dialect == "sqlite":
            given = {"creator": lambda: _sqlite(url.database)}
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, **given)

        @event.listens_for(engine, "connect")
        def restrict(connection: Any, _: Any) -> None:
            cursor = connection.cursor()
            for statement in _MAKE_READ_ONLY.get(dialect, ()):
                cursor.execute(statement.format(ms=max(1, round(self._source.timeout * 1000))))
            cursor.close()
            connection.commit()     # the settings, which a rollback would take back
            self._connected = True

        return engine

    @contextmanager
    def watched(self, connection: Any) -> Iterator[None]:
        """Have another thread stop the query when it takes too long or the job is cancelled."""
        stop = getattr(connection, "cancel_safe", None) or getattr(connection, "interrupt", lambda: None)
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK):
                self._slow = self._slow or clock.monotonic() > self._until
                if self._slow or self._job.cancelled:
                    with suppress(Exception):       # it is tried again; the database's own time-out ends it, too
                        stop()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        except JobTimedOut:
            with suppress(Exception):
                stop()
            raise
        finally:
            over.set()
            watcher.join()

    def statement(self) -> "TextClause":
        """The query with its parameters, which are bound by the driver and never become part of the text."""
        from sqlalchemy import BigInteger, Boolean, Date, DateTime, Float, Text, bindparam, text

        kinds = {"text": Text(), "integer": BigInteger(), "number": Float(), "boolean": Boolean(), "date": Date(),
                 "datetime": DateTime(timezone=True) if self._source.url[:6] != "sqlite" else Text()}
        return text(self._query.sql).bindparams(
            *(bindparam(name, type_=kinds[param.type]) for name, param in self._query.params.items()))

    def count(self, connection: "Connection", values: dict[str, Any]) -> int | None:
        """How many rows there are; None where the database cannot count them: then only the progress is unknown."""
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError

        counting = text(f"SELECT count(*) FROM (\n{self._query.sql}\n) AS counted")
        counting = counting.bindparams(*self.statement()._bindparams.values())
        try:
            return connection.execute(counting, values).scalar()
        except DBAPIError as error:
            if self._slow or self._is_lost(error):
                raise
            self._job.check()
            return None
        finally:
            connection.rollback()

    def batches(self, result: "CursorResult") -> Iterator[list[tuple]]:
        """The rows, as many at a time as fit in memory. Faults as in `open_`."""
        from sqlalchemy.exc import DBAPIError

        try:
            # The size is named: without it a driver that does not stream of itself would hand out single rows.
            for rows in result.partitions(_BATCH):
                self._until = math.inf      # what is done with them is not the database's time
                yield rows
                self.step()
            self._until = math.inf
        except DBAPIError as error:
            raise self.fault(error) from error

    def fault(self, error: "DBAPIError") -> Problem | Retry:
        """What a fault of the database means for the job."""
        name, query = self._source.name, self._query.name
        if self._is_lost(error):
            detail = f"The source {name} does not answer: {self._told(error)}"
            return Retry(problem=Problem("source-unavailable", detail))
        if not self._slow:
            self._job.check()       # it may have been stopped because the job was cancelled
        number = getattr(error.orig, "sqlstate", None) or (error.orig.args or [None])[0]
        if self._slow or number in _TOO_SLOW:
            return Problem("report-query-slow",
                           f"The source {name} took longer than {self._source.timeout:g} s for a step of {query}.")
        return Problem("report-query-failed", f"The source {name} refused {query}: {self._told(error)}")

    def _is_lost(self, error: "DBAPIError") -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None) or 0
        return not self._connected or error.connection_invalidated or code & 0xFF in _NO_FAULT_OF_SQL

    def _told(self, error: "DBAPIError") -> str:
        """The database's own words, in one line, without the password of the source."""
        from sqlalchemy.engine import make_url

        words = " ".join(str(error.orig).split())[:500]
        password = make_url(self._source.url).password
        return words.replace(password, "•••") if password else words


def _sqlite(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=_CONNECT, check_same_thread=False)
    connection.execute("PRAGMA query_only = 1")
    return connection


def _bound(values: dict[str, Any], dialect: str) -> dict[str, Any]:
    """SQLite has no type for an instant: it gets the text that its own date functions write, in UTC."""
    if dialect != "sqlite":
        return values
    return {name: value.isoformat(" ").removesuffix("+00:00") if isinstance(value, datetime) else value
            for name, value in values.items()}


def _unique(names: list[str]) -> list[str]:
    """The names of columns, each once: id, id_2."""
    found: list[str] = []
    for name in names:
        number, one = 1, name
        while one in found:
            number += 1
            one = f"{name}_{number}"
        found.append(one)
    return found
