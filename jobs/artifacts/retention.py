"""How long things are kept. A job's artifacts live as long as the job, a resource's as long as the resource, an upload as
long as a job uses it, and bytes without a row not at all.

Bytes are deleted before their row, so a crash leaves work for the next sweep and never bytes that nobody knows of. All
goes in small batches, so nobody waits long for his turn to write.
"""

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from jobs import clock
from jobs.artifacts.store import Store
from jobs.core import resources, tombstones
from jobs.db import Database, Transaction, placeholders
from jobs.errors import StorageUnavailable
from jobs.settings import Settings

ORPHANED_AFTER = 3600  # seconds; the time between bytes and row is milliseconds
_ORPHANS_EVERY = 3600  # seconds; looking for them reads the whole store
_BATCH = 100
_log = logging.getLogger("accepted.retention")


def sweep(db: Database, store: Store, settings: Settings, seconds: float = 1.0) -> int:
    """Remove what has had its time, for about `seconds` at most; how many things that were. Call it every few seconds."""
    end = clock.monotonic() + seconds
    removed = _doomed(db, store, end)  # first, because on a full disk this is what makes room
    for forget in (tombstones.bury_expired, _forget_tombstones(settings), resources.expire, _expire_uploads):
        removed += _in_batches(db, forget, end)
    removed += _doomed(db, store, end)
    if _is_time_for_orphans(db):
        removed += sweep_orphans(db, store) + sweep_folders(db, store, settings)
    return removed


def sweep_orphans(db: Database, store: Store, age: float = ORPHANED_AFTER) -> int:
    """Delete from the store what has lain there for `age` seconds without a row; how many artifacts that were."""
    old = (leaf.key for leaf in store.leaves() if leaf.age >= age)
    removed = 0
    while keys := list(islice(old, _BATCH)):
        names, named = placeholders("key", keys)
        known = {row.key for row in db.read().all(f"SELECT key FROM artifacts WHERE key IN ({names})", **named)}
        for key in keys:
            if key not in known:
                store.delete(key)
                _log.warning("deleted %s, which no artifact names", key)
                removed += 1
    return removed


def sweep_folders(db: Database, store: Store, settings: Settings, age: float = ORPHANED_AFTER) -> int:
    """Delete temporary files untouched for `age` seconds, and working folders whose attempt no longer runs; how many."""
    removed = 0
    for leftover in _old(store.scratch, age):
        _remove(leftover)
        removed += 1
    for folder in _old(settings.data_dir / "work", age):
        attempt = re.match(r"(\d+)-(\d+)", folder.name)
        if not attempt or not db.read().value("SELECT 1 FROM leases WHERE job_id = :id AND attempt = :attempt",
                                              id=int(attempt[1]), attempt=int(attempt[2])):
            _remove(folder)
            removed += 1
    return removed


def _in_batches(db: Database, forget: Callable[..., int], end: float) -> int:
    removed = 0
    while clock.monotonic() < end:
        number = db.write(lambda tx: forget(tx, limit=_BATCH))
        removed += number
        if number < _BATCH:
            break
    return removed


def _forget_tombstones(settings: Settings) -> Callable[..., int]:
    return lambda tx, limit: tombstones.forget(tx, settings.tombstones, limit)


def _expire_uploads(tx: Transaction, limit: int) -> int:
    """Uploads that no job took in time, or whose last job is gone."""
    return tx.run("""UPDATE artifacts SET state = 'doomed' WHERE id IN (
                       SELECT id FROM artifacts WHERE state = 'whole' AND expires_at <= :now
                       AND NOT EXISTS (SELECT 1 FROM artifact_uses WHERE artifact_id = artifacts.id)
                       ORDER BY expires_at LIMIT :limit)""", now=tx.now, limit=limit)


def _doomed(db: Database, store: Store, end: float) -> int:
    """Delete the bytes of doomed artifacts, then their rows. One whose bytes cannot be deleted now keeps its row."""
    removed, last = 0, 0
    while clock.monotonic() < end:
        rows = db.read().all("SELECT id, key FROM artifacts WHERE state = 'doomed' AND id > :last ORDER BY id LIMIT :limit",
                             last=last, limit=_BATCH)
        if not rows:
            break
        last = rows[-1].id
        deleted = [row.id for row in rows if _delete(store, row.key)]
        removed += db.write(lambda tx, ids=deleted: _drop(tx, ids)) if deleted else 0
    return removed


def _delete(store: Store, key: str) -> bool:
    try:
        store.delete(key)
        return True
    except (OSError, ValueError, StorageUnavailable) as error:
        _log.error("%s cannot be deleted: %s", key, error)
        return False


def _drop(tx: Transaction, ids: list[int]) -> int:
    names, named = placeholders("id", ids)
    return tx.run(f"DELETE FROM artifacts WHERE id IN ({names}) AND state = 'doomed'", **named)


def _is_time_for_orphans(db: Database) -> bool:
    now = int(clock.now().timestamp())
    last = db.read().value("SELECT value FROM meta WHERE name = 'orphans_swept'")
    if last is not None and 0 <= now - last < _ORPHANS_EVERY:
        return False
    db.write(lambda tx: tx.run("""INSERT INTO meta (name, value) VALUES ('orphans_swept', :now)
                                  ON CONFLICT (name) DO UPDATE SET value = :now""", now=now), durable=False)
    return True


def _old(folder: Path, age: float) -> Iterator[Path]:
    """Entries in which nothing was touched for `age` seconds, by the clock of the file system."""
    for entry in list(folder.iterdir()) if folder.is_dir() else ():
        inside = entry.rglob("*") if entry.is_dir() and not entry.is_symlink() else ()
        try:
            touched = max(path.lstat().st_mtime for path in (entry, *inside))
        except FileNotFoundError:
            continue  # in use
        if time.time() - touched >= age:
            yield entry


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    _log.info("removed the leftover %s", path.name)
