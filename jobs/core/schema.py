"""Whether the database has the tables of this release, without loading what makes them; and the jump of the version."""

import zlib
from pathlib import Path

from jobs import clock
from jobs.db import Database, Transaction
from jobs.errors import StorageUnavailable

_MADE_OF = ("core/base.py", "core/models.py", "core/people.py", "webhooks/models.py")
_ROW = "schema"


def is_current(db: Database) -> bool:
    """Whether the schema was made by just these models. A later start need not load the ORM to find that out."""
    try:
        return db.read().value("SELECT value FROM meta WHERE name = :name", name=_ROW) == _fingerprint()
    except StorageUnavailable:
        raise
    except Exception:
        return False  # there is no such table yet: each driver has an error of its own for that


def note(tx: Transaction) -> None:
    """Remember that the schema was made by these models."""
    tx.run("""INSERT INTO meta (name, value) VALUES (:name, :value)
              ON CONFLICT (name) DO UPDATE SET value = excluded.value""", name=_ROW, value=_fingerprint())


def jump(tx: Transaction) -> None:
    """Let the version jump to max(version + 1, now in ms).

    A power cut that lost the last relaxed commits, or a restored backup, then never hands out a number twice.
    """
    floor = int(clock.now().timestamp() * 1000)
    for name, value in (("version", floor), ("horizon", 0)):
        tx.run("INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
               name=name, value=value)
    if tx.dialect == "postgresql":
        tx.value("SELECT setval('job_version', greatest(nextval('job_version'), :floor))", floor=floor)
    else:
        tx.run("UPDATE meta SET value = max(value + 1, :floor) WHERE name = 'version'", floor=floor)


def _fingerprint() -> int:
    room = Path(__file__).parents[1]
    return zlib.crc32(b"".join((room / name).read_bytes() for name in _MADE_OF))
