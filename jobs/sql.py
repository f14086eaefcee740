"""Speaking SQL: rows, reading, and the statements of one transaction.

SQL is plain text with `:name` parameters that SQLite and PostgreSQL both understand.
"""

import contextlib
import re
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from jobs import clock
from jobs.engines import storage_error
from jobs.errors import StorageUnavailable


class Row(dict):
    """One row: `row["id"]` or `row.id`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Reader:
    """Runs SELECTs on one connection; each is its own transaction and ends with its last row.

    StorageUnavailable when the database does not answer; what is wrong with a statement is raised as the driver does.
    """

    def __init__(self, connection: Any, dialect: str):
        self._connection = connection
        self.dialect = dialect

    def all(self, sql: str, **parameters: Any) -> list[Row]:
        """Every row."""
        return self._ask(sql, parameters, _rows)

    def one(self, sql: str, **parameters: Any) -> Row | None:
        """The first row, or None."""
        rows = self.all(sql, **parameters)
        return rows[0] if rows else None

    def value(self, sql: str, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        return self._ask(sql, parameters, _value)

    def _ask(self, sql: str, parameters: dict[str, Any], take: Callable[[Any], Any]) -> Any:
        return self._run(self._connection, sql, parameters, take)

    def _run(self, connection: Any, sql: str, parameters: dict[str, Any], take: Callable[[Any], Any]) -> Any:
        if self.dialect == "postgresql":
            sql = _for_psycopg(sql)
        try:
            return take(connection.execute(sql, parameters))
        except Exception as error:
            fault = storage_error(error)
            if fault is None:
                raise
            raise fault from error


class SharedReader(Reader):
    """A reader for all threads: each statement borrows a connection, and opens one when none is idle.

    What fails on a connection that had lain idle is asked again on a fresh one, since a server may have come back.
    """

    def __init__(self, connect: Callable[[], Any], dialect: str):
        super().__init__(None, dialect)
        self._connect = connect
        self._idle: deque[Any] = deque()
        self._generation = 0

    def forget(self) -> None:
        """Close what is idle now, and what is in use when it comes back."""
        self._generation += 1
        while self._idle:
            _close(self._idle.pop())

    def _ask(self, sql: str, parameters: dict[str, Any], take: Callable[[Any], Any]) -> Any:
        generation = self._generation
        try:
            connection, fresh = self._idle.pop(), False
        except IndexError:
            connection, fresh = self._connect(), True
        try:
            answer = self._run(connection, sql, parameters, take)
        except StorageUnavailable:
            _close(connection)
            self.forget()
            if fresh:
                raise
            return self._ask(sql, parameters, take)
        except BaseException:
            _close(connection)      # in whatever state it is
            raise
        if generation == self._generation:
            self._idle.append(connection)
        else:
            _close(connection)
        return answer


class Transaction(Reader):
    """What a closure given to `Database.write` works with."""

    def __init__(self, connection: Any, dialect: str):
        super().__init__(connection, dialect)
        self.now = clock.wire(clock.now())
        self.messages: list[dict] = []
        self._version: int | None = None

    def run(self, sql: str, **parameters: Any) -> int:
        """Execute a statement; the number of rows it changed."""
        return self._ask(sql, parameters, _count)

    def insert(self, sql: str, **parameters: Any) -> int:
        """Execute an INSERT that ends with `RETURNING id`; the new id."""
        return self.value(sql, **parameters)

    def next_version(self) -> int:
        """The next number of the one sequence that orders every visible change."""
        if self.dialect == "postgresql":
            return self.value("SELECT nextval('job_version')")
        if self._version is None:
            self._version = self.value("SELECT value FROM meta WHERE name = 'version'") or 0
        self._version += 1
        return self._version

    def announce(self, message: dict) -> None:
        """Ring the doorbell with this message once the transaction is on disk."""
        self.messages.append(message)

    def store_version(self) -> None:
        """Write the sequence back; the door calls this once per batch."""
        if self._version is not None:
            self.run("UPDATE meta SET value = :value WHERE name = 'version'", value=self._version)


def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):    # given up anyway
        connection.close()


def _rows(cursor: Any) -> list[Row]:
    names = [column[0] for column in cursor.description]
    return [Row(zip(names, values)) for values in cursor.fetchall()]


def _value(cursor: Any) -> Any:
    row = cursor.fetchone()
    return row[0] if row else None


def _count(cursor: Any) -> int:
    return cursor.rowcount


@lru_cache(maxsize=2048)
def _for_psycopg(sql: str) -> str:
    return re.sub(r"(?<!:):([a-z_]\w*)", r"%(\1)s", sql.replace("%", "%%"))


def placeholders(prefix: str, values: Any) -> tuple[str, dict[str, Any]]:
    """`(":p0, :p1", {"p0": …, "p1": …})` for an IN list."""
    named = {f"{prefix}{number}": value for number, value in enumerate(values)}
    return ", ".join(f":{name}" for name in named) or "NULL", named
