"""Who leads: a lock that the operating system or PostgreSQL takes back by itself when its holder dies."""

import fcntl
import os
from typing import Any

from jobs.settings import Settings

_ADVISORY_LOCK = 0x0ACD


def leadership(settings: Settings) -> "FileLeadership | PostgresLeadership":
    """The kind of leadership that reaches as far as the database does."""
    return PostgresLeadership(settings) if settings.database_url else FileLeadership(settings)


class FileLeadership:
    """Among the processes of one machine."""

    def __init__(self, settings: Settings):
        self._path = settings.data_dir / "dispatcher.lock"
        self._file: int | None = None

    def held(self) -> bool:
        """Whether we lead; takes the lead if nobody does."""
        if self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                return False
            self._file = file
        return True

    def close(self) -> None:
        """Let another lead."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class PostgresLeadership:
    """Among all machines: an advisory lock of a session that does nothing else."""

    def __init__(self, settings: Settings):
        self._url = settings.database_url.replace("postgresql+psycopg://", "postgresql://", 1)
        self._session: Any = None
        self._leads = False

    def held(self) -> bool:
        """Whether we lead; a session that broke has lost the lead and asks anew."""
        import psycopg  # an optional extra; only those who name a PostgreSQL URL need it

        try:
            if self._session is None:
                self._session = psycopg.connect(self._url, autocommit=True, connect_timeout=5)
                self._leads = False
            if self._leads:
                self._session.execute("SELECT 1")
            else:
                self._leads = self._session.execute(f"SELECT pg_try_advisory_lock({_ADVISORY_LOCK})").fetchone()[0]
        except psycopg.Error:
            self.close()
        return self._leads

    def close(self) -> None:
        """Let another lead."""
        session, self._session, self._leads = self._session, None, False
        if session is not None:
            session.close()
