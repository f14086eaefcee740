"""What differs between the two databases: connecting, opening a transaction, and what faults and a lost COMMIT mean."""

import os
import sqlite3
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs import clock
from jobs.errors import StorageFull, StorageUnavailable
from jobs.settings import Settings

_ADVISORY_LOCK = 0x0ACC
_PATIENCE = 5.0     # seconds to find out what became of a COMMIT whose answer was lost
_ROOM = 1 << 20     # bytes; with less left on the disk nobody should send work here
_SQLITE_UNAVAILABLE = {
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM}
# Classes of SQLSTATE (PostgreSQL, appendix A): connection, rollback by conflict, resources, intervention, system.
_POSTGRES_UNAVAILABLE = ("08", "40", "53", "57", "58", "55P03", "25006", "25P03")


class Sqlite:
    """One file, written in turns by the processes of one machine."""

    dialect = "sqlite"

    def __init__(self, settings: Settings):
        self.path = Path(settings.data_dir) / "accepted.db"
        self._open = False
        self._inherited = False

    def connect(self, read_only: bool) -> sqlite3.Connection:
        """A connection, usable by any thread, one at a time."""
        if self._inherited:
            raise RuntimeError("This process was forked while the database was open, and SQLite's locks do not survive "
                               "that: call Database.close() before the fork.")
        with suppress(OSError):  # not there yet; its log gets the same mode when SQLite makes it
            self.path.chmod(0o600)
        connection = sqlite3.connect(self.path, timeout=10, isolation_level=None, cached_statements=512,
                                     check_same_thread=False)
        self._open = True
        for pragma in ("journal_mode = WAL", "foreign_keys = ON", "wal_autocheckpoint = 8000",
                       f"query_only = {int(read_only)}"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def begin(self, connection: sqlite3.Connection, durable: bool) -> None:
        """Open a transaction to write; the turn is ours. Its mark for `committed`: none is needed."""
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")

    def committed(self, mark: None) -> bool:
        """After a COMMIT that failed: no. With a write-ahead log it shows only once every step has worked."""
        return False

    def closed(self) -> None:
        """Every connection of this process is closed; it may fork."""
        self._open = False

    def forked(self) -> None:
        """We are a forked child. What the parent had open can be neither used nor closed without harm to its locks."""
        self._inherited = self._inherited or self._open

    def check_room(self) -> None:
        """StorageFull when the disk is all but full."""
        try:
            disk = os.statvfs(self.path.parent)
        except OSError as error:
            raise storage_error(error) from error
        if disk.f_bavail * disk.f_frsize < _ROOM:
            raise StorageFull(f"less than {_ROOM} bytes are left on the disk")


class Postgres:
    """A server; a turn to write is an advisory lock, so that versions become visible in the order of their numbers."""

    dialect = "postgresql"
    path = None

    def __init__(self, settings: Settings):
        self._url = settings.database_url.replace("postgresql+psycopg://", "postgresql://", 1)
        self._turn = f"-c idle_in_transaction_session_timeout={round(settings.longest_turn * 1000)}"

    def connect(self, read_only: bool) -> Any:
        """A connection. The server ends that of a writer which stands still in its turn: nobody else could write."""
        import psycopg  # an optional extra; only those who name a PostgreSQL URL need it

        options = "-c default_transaction_read_only=on" if read_only else self._turn
        return psycopg.connect(self._url, autocommit=True, options=options, connect_timeout=5)

    def begin(self, connection: Any, durable: bool) -> str:
        """Open a transaction and wait for the turn to write; its mark for `committed`."""
        relaxed = "" if durable else "SET LOCAL synchronous_commit TO off;"
        cursor = connection.execute(
            f"BEGIN; {relaxed} SELECT pg_advisory_xact_lock({_ADVISORY_LOCK}), pg_current_xact_id()::text")
        while cursor.nextset():
            pass
        return cursor.fetchone()[1]

    def committed(self, mark: str) -> bool | None:
        """After a COMMIT that failed or got no answer, the server knows what became of it. None: it cannot be asked."""
        deadline = clock.monotonic() + _PATIENCE
        while clock.monotonic() < deadline:
            try:
                with self.connect(read_only=True) as connection:
                    status = connection.execute("SELECT pg_xact_status(%s::xid8)", [mark]).fetchone()[0]
            except Exception as error:
                if storage_error(error) is None:
                    raise
                status = None       # a server that restarts comes back
            if status in ("committed", "aborted"):
                return status == "committed"
            time.sleep(0.1)
        return None

    def closed(self) -> None:
        """Every connection of this process is closed."""

    def forked(self) -> None:
        """We are a forked child; psycopg leaves connections alone that another process made."""

    def check_room(self) -> None:
        """The server's disk is the server's affair; a write tells."""


def storage_error(error: BaseException) -> StorageUnavailable | None:
    """What a fault means for a caller, or None when it lies in the statement itself."""
    if isinstance(error, StorageUnavailable):
        return error
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None) or 0
        if code & 0xFF == sqlite3.SQLITE_FULL:
            return StorageFull(str(error))
        return StorageUnavailable(str(error)) if code & 0xFF in _SQLITE_UNAVAILABLE else None
    if isinstance(error, OSError):
        return StorageFull(str(error)) if error.errno == 28 else StorageUnavailable(str(error))
    psycopg = sys.modules.get("psycopg")
    if psycopg and isinstance(error, psycopg.Error):
        state = error.sqlstate
        if state == "53100":
            return StorageFull(str(error))
        lost = state is None and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return StorageUnavailable(str(error)) if lost or (state or "").startswith(_POSTGRES_UNAVAILABLE) else None
    return None
