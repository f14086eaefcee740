"""The database: reads for everybody, and one door for every write.

SQLite is written by one process at a time, in turns: a file lock is taken before BEGIN IMMEDIATE, because SQLite's own
busy waiting starves whoever is unlucky. Within a process the closures that wait are committed together, each in a
savepoint of its own, so that one fsync serves all of them. On PostgreSQL an advisory lock is the turn: versions become
visible in the order of their numbers.
"""

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from jobs.engines import Postgres, Sqlite, storage_error
from jobs.errors import StorageUnknown
from jobs.settings import Settings
from jobs.sql import Reader, Row, SharedReader, Transaction, placeholders
from jobs.turn import Turn

__all__ = ["Database", "Reader", "Row", "Transaction", "placeholders"]
T = TypeVar("T")
_BATCH = 64
_log = logging.getLogger(__name__)


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
    """Connections are opened when they are needed, and again after a fork."""

    def __init__(self, settings: Settings, announce: Callable[[dict], Any] | None = None):
        self._settings = settings
        self._announce = announce
        self._engine = Postgres(settings) if settings.database_url else Sqlite(settings)
        self.dialect, self.path = self._engine.dialect, self._engine.path
        self._turn = Turn(settings.data_dir / "turn.lock") if self.dialect == "sqlite" else None
        self._reset()
        _everyone.add(self)

    def _reset(self) -> None:
        self._reader = SharedReader(lambda: self._connect(read_only=True), self.dialect)
        self._writer: Any = None
        self._queue_lock = threading.Lock()
        self._waiting: list[_Call] = []
        self._led = False
        self._leader: int | None = None
        self._checkpoint_due = False

    # Reading

    def read(self) -> Reader:
        """The reader, for any thread; it cannot write."""
        return self._reader

    # Writing

    def write(self, function: Callable[[Transaction], T], durable: bool = True) -> T:
        """Run `function` in a transaction and return its result once that is committed.

        `durable` waits for the disk (what is promised to somebody); without it a power cut may lose the commit, a
        crash of the process may not. What `function` raises undoes its own statements only and is raised here.
        StorageFull or StorageUnavailable: nothing was stored. StorageUnknown, one of these: nobody can tell.
        """
        if self._leader == threading.get_ident():
            raise RuntimeError("a closure may not go through the door again")
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
        self._leader = threading.get_ident()
        try:
            self._commit(batch)
        except BaseException as error:
            for call in batch:
                call.error = call.error or storage_error(error) or error
        finally:
            self._leader = None
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
            try:
                self._announce(message)
            except Exception:   # it is stored, and that is what the caller is told
                _log.debug("a change could not be announced", exc_info=True)

    def _run_batch(self, batch: list[_Call]) -> list[dict]:
        connection, mark = self._begin(durable=any(call.durable for call in batch))
        committing = False
        try:
            transaction = Transaction(connection, self.dialect)
            for call in batch:
                self._run_one(transaction, call)
            transaction.store_version()
            committing = True
            connection.execute("COMMIT")
        except BaseException as error:
            self._give_up_connections()
            committed = committing and self._engine.committed(mark)
            if committed is None:
                raise StorageUnknown from error
            if not committed:
                raise
        return transaction.messages

    def _begin(self, durable: bool, again: bool = True) -> tuple[Any, Any]:
        """A connection on which a transaction has begun, and its mark. What fails here is tried once more, afresh."""
        if self._writer is None:
            self._writer = self._connect(read_only=False)
        try:
            return self._writer, self._engine.begin(self._writer, durable)
        except Exception:
            self._give_up_connections()
            if not again:
                raise
        return self._begin(durable, again=False)

    def _give_up_connections(self) -> None:
        """The writer's, whatever state it is in, and those of readers: SQLite shares state between them, so that one
        which was opened while the disk was read-only spoils them all."""
        self._discard_writer()
        self._reader.forget()

    def _run_one(self, transaction: Transaction, call: _Call) -> None:
        connection, rung = transaction._connection, len(transaction.messages)
        connection.execute("SAVEPOINT call")
        try:
            call.result = call.function(transaction)
        except BaseException as error:
            if storage_error(error):
                raise
            connection.execute("ROLLBACK TO call")
            del transaction.messages[rung:]
            call.error = error
        connection.execute("RELEASE call")

    # Care

    def check(self) -> None:
        """Find out whether the database takes writes; StorageUnavailable or StorageFull when it does not."""
        self.write(lambda tx: tx.run("UPDATE meta SET value = value WHERE name = 'horizon'"), durable=False)

    def check_room(self) -> None:
        """StorageFull when the disk of the database is all but full."""
        self._engine.check_room()

    def checkpoint(self) -> None:
        """Move SQLite's log into the database, inside the turn: outside it the log never resets under load."""
        if self._turn:
            self._checkpoint_due = True
            self.write(lambda tx: None, durable=False)  # by the door: other threads may be writing

    def _move_log(self) -> None:
        self._checkpoint_due = False
        try:
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            self._discard_writer()  # what the batch wrote is committed all the same; the next checkpoint tries again

    def turn_holder(self) -> tuple[int, int] | None:
        """(pid, number of the turn) of another process that holds the turn, or None.

        For a process that does not write itself. Always None on PostgreSQL, where the server watches.
        """
        return self._turn.holder() if self._turn else None

    def close(self) -> None:
        """Close every connection; required of a parent before it forks."""
        self._give_up_connections()
        if self._turn:
            self._turn.close()
        self._engine.closed()

    # Connections

    def _connect(self, read_only: bool) -> Any:
        try:
            return self._engine.connect(read_only)
        except Exception as error:
            raise storage_error(error) or error from error

    def _discard_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except Exception:
                pass  # it is given up for being broken; that closing it fails changes nothing

    def _after_fork(self) -> None:
        """In a child: nothing of the parent's is used, nor closed, but for the turn's descriptor: it bears no lock of ours."""
        self._engine.forked()
        _inherited.append((self._reader, self._writer))
        if self._turn:
            self._turn.close()
        self._reset()


_everyone: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Any] = []


def _forked() -> None:
    for database in list(_everyone):
        database._after_fork()


os.register_at_fork(after_in_child=_forked)
