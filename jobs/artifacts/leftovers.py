"""Temporary files on this machine that nobody needs any more: what a killed process left, and parts of downloads.

Each machine sweeps its own, whoever leads.
"""

import logging
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from jobs.artifacts.store import Store
from jobs.db import Database
from jobs.settings import Settings

LEFT_AFTER = 3600   # seconds in which nobody touched it
_log = logging.getLogger("accepted.retention")


class Leftovers:
    """Call `sweep` every now and then."""

    def __init__(self, db: Database, store: Store, settings: Settings):
        self._db, self._store, self._settings = db, store, settings

    def sweep(self) -> int:
        """Delete files untouched for an hour, and working folders whose attempt no longer runs; how many."""
        found = [*_untouched(self._store.scratch),
                 *(folder for folder in _untouched(self._settings.data_dir / "work") if not self._runs(folder.name))]
        for leftover in found:
            _remove(leftover)
        return len(found)

    def _runs(self, name: str) -> bool:
        attempt = re.match(r"(\d+)-(\d+)", name)
        return bool(attempt and self._db.read().value("SELECT 1 FROM leases WHERE job_id = :id AND attempt = :attempt",
                                                      id=int(attempt[1]), attempt=int(attempt[2])))


def _untouched(folder: Path) -> Iterator[Path]:
    """Entries in which nothing was touched for an hour, by the clock of the file system."""
    for entry in list(folder.iterdir()) if folder.is_dir() else ():
        inside = entry.rglob("*") if entry.is_dir() and not entry.is_symlink() else ()
        try:
            touched = max(path.lstat().st_mtime for path in (entry, *inside))
        except FileNotFoundError:
            continue  # in use
        if time.time() - touched >= LEFT_AFTER:
            yield entry


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    _log.info("removed the leftover %s", path.name)
