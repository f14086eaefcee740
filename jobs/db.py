"""The database: reads for everybody, and one door for every write.

SQLite is written by one process at a time, in turns: a file lock is taken before BEGIN IMMEDIATE, because SQLite's own
busy waiting starves whoever is unlucky. Within a process the closures that wait are committed together, each in a
savepoint of its own, so that one fsync serves all of them. On PostgreSQL an advisory lock is the turn: versions become
visible in the order of their numbers.
"""

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from jobs.errors import StorageFull, StorageUnavailable
from jobs.settings import Settings
from jobs.sql import Reader, Row, Transaction, placeholders
from jobs.turn import Turn

__all__ = ["Database", "Reader", "Row", "Transaction", "placeholders"]
T = TypeVar("T")
_BATCH = 64
_ADVISORY_LOCK = 0x0ACC
_FULL = {sqlite3.SQLITE_FULL}
_UNAVAILABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_PERM}


class _Call:
    """A closure that waits for its batch, and what became of it."""

    def __init__(self, function: Callable[[Transaction], Any], durable: bool):
        self.function = function
        self.durable = durable
        self.settled = threading.Event()  # its batch is over, or it is this call's turn to lead the next
        self.leads = False
        self.result: Any = None
        self.error: BaseException | None = None


class Database:
    """Connections are opened lazily, per thread, and again after a fork."""

    def __init__(self, settings: Settings, announce: Callable[[dict], Any] | None = None):
        self._settings = settings
        self._announce = announce
        self.dialect = "postgresql" if settings.database_url else "sqlite"
        self.path = Path(settings.data_dir) / "accepted.db"
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._local = threading.local()
        self._writer: Any = None
        self._queue_lock = threading.Lock()
        self._waiting: list[_Call] = []
        self._led = False
        self._checkpoint_due = False
        self._turn = Turn(self._settings.data_dir / "turn.lock") if self.dialect == "sqlite" else None

    # Reading

    def read(self) -> Reader:
        """A reader on this thread's own read-only connection. StorageUnavailable when it cannot be opened."""
        self._after_fork()
        reader = getattr(self._local, "reader", None)
        if reader is None or self._is_broken(reader._connection):
            reader = self._local.reader = Reader(self._connect(read_only=True), self.dialect)
        return reader

    # Writing

    def write(self, function: Callable[[Transaction], T], durable: bool = True) -> T:
        """Run `function` in a transaction and return its result once that is committed.

        `durable` waits for the disk (what is promised to somebody); without it a power cut may lose the commit, a
        crash of the process may not. What `function` raises undoes its own statements only and is raised here.
        StorageFull or StorageUnavailable: nothing was stored.
        """
        self._after_fork()
        call = _Call(function, durable)
        with self._queue_lock:
            self._waiting.append(call)
            call.leads, self._led = not self._led, True
        if not call.leads:
            call.settled.wait()
        if call.leads:
            self._lead()
        if call.error is not None:
            raise call.error
        return call.result

    def _lead(self) -> None:
        """Commit the batch in front, then let the first of those who came meanwhile lead the next one."""
        with self._queue_lock:
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        try:
            self._commit(batch)
        except BaseException as error:
            for call in batch:
                call.error = call.error or _storage_error(error) or error
        finally:
            with self._queue_lock:
                heir = self._waiting[0] if self._waiting else None
                self._led = heir is not None
            for call in batch:
                call.leads = False
                call.settled.set()
            if heir:
                heir.leads = True
                heir.settled.set()

    def _commit(self, batch: list[_Call]) -> None:
        if self._turn:
            with self._turn:
                messages = self._run_batch(batch)
                if self._checkpoint_due:
                    self._move_log()
        else:
            messages = self._run_batch(batch)
        for message in messages if self._announce else ():
            self._announce(message)

    def _run_batch(self, batch: list[_Call]) -> list[dict]:
        connection = self._writing_connection()
        try:
            self._begin(connection, durable=any(call.durable for call in batch))
            transaction = Transaction(connection, self.dialect)
            for call in batch:
                self._run_one(transaction, call)
            transaction.store_version()
            connection.execute("COMMIT")
            return transaction.messages
        except BaseException:
            self._discard_writer()  # whatever state it is in, the next batch starts on a fresh connection
            raise

    def _run_one(self, transaction: Transaction, call: _Call) -> None:
        connection, rung = transaction._connection, len(transaction.messages)
        connection.execute("SAVEPOINT call")
        try:
            call.result = call.function(transaction)
        except Exception as error:
            if _storage_error(error):
                raise
            connection.execute("ROLLBACK TO call")
            del transaction.messages[rung:]
            call.error = error
        connection.execute("RELEASE call")

    def _begin(self, connection: Any, durable: bool) -> None:
        if self.dialect == "sqlite":
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
        else:
            connection.execute("BEGIN")
            connection.execute(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            if not durable:
                connection.execute("SET LOCAL synchronous_commit TO off")

    # Care

    def checkpoint(self) -> None:
        """Move SQLite's log into the database, inside the turn: outside it the log never resets under load."""
        if self._turn:
            self._checkpoint_due = True
            self.write(lambda tx: None, durable=False)  # by the door: other threads may be writing

    def _move_log(self) -> None:
        self._checkpoint_due = False
        try:
            self._writing_connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            self._discard_writer()  # what the batch wrote is committed all the same; the next checkpoint tries again

    def turn_holder(self) -> tuple[int, int] | None:
        """(pid, number of the turn) of the process that holds the turn, or None. Always None on PostgreSQL."""
        return self._turn.holder() if self._turn else None

    def close(self) -> None:
        """Close every connection that this thread can; required of a parent before it forks."""
        reader = getattr(self._local, "reader", None)
        if reader is not None:
            reader._connection.close()
            del self._local.reader
        self._discard_writer()
        if self._turn:
            self._turn.close()

    # Connections

    def _connect(self, read_only: bool) -> Any:
        try:
            return self._connect_sqlite(read_only) if self.dialect == "sqlite" else self._connect_postgres(read_only)
        except Exception as error:
            raise _storage_error(error) or error from error

    def _connect_sqlite(self, read_only: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=10, isolation_level=None, cached_statements=512,
                                     check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 8000")
        connection.execute(f"PRAGMA query_only = {int(read_only)}")
        return connection

    def _connect_postgres(self, read_only: bool) -> Any:
        import psycopg  # an optional extra; only those who name a PostgreSQL URL need it

        url = self._settings.database_url.replace("postgresql+psycopg://", "postgresql://", 1)
        options = "-c default_transaction_read_only=on" if read_only else ""
        return psycopg.connect(url, autocommit=True, options=options, connect_timeout=5)

    def _writing_connection(self) -> Any:
        if self._writer is None or self._is_broken(self._writer):
            self._writer = self._connect(read_only=False)
        return self._writer

    def _discard_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except Exception:
                pass  # it is given up for being broken; that closing it fails changes nothing

    def _is_broken(self, connection: Any) -> bool:
        return self.dialect == "postgresql" and (connection.closed or connection.broken)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._reset()


def _storage_error(error: BaseException) -> StorageUnavailable | None:
    """What a driver's error means for a caller, or None when it is a fault of the statement itself."""
    if isinstance(error, StorageUnavailable):
        return error
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _FULL:
            return StorageFull(str(error))
        return StorageUnavailable(str(error)) if code in _UNAVAILABLE else None
    if isinstance(error, OSError):
        return StorageFull(str(error)) if error.errno == 28 else StorageUnavailable(str(error))
    if type(error).__module__.startswith("psycopg") and type(error).__name__ in (
            "OperationalError", "AdminShutdown", "CannotConnectNow", "CrashShutdown", "InterfaceError"):
        return StorageUnavailable(str(error))
    if type(error).__name__ == "DiskFull":
        return StorageFull(str(error))
    return None
