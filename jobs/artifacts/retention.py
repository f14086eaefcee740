"""How long things are kept. A job's artifacts live as long as the job, a resource's as long as the resource, an upload as
long as a job uses it, and bytes without a row not at all.

Bytes are deleted before their row, so a crash leaves work for the next sweep and never bytes that nobody knows of. All
goes in small batches, so nobody waits long for his turn to write.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice

from jobs import clock
from jobs.artifacts.store import Leaf, Store
from jobs.core import audit, resources, tombstones
from jobs.db import Database, Transaction, placeholders
from jobs.errors import StorageUnavailable
from jobs.settings import Settings

ORPHANED_AFTER = 3600  # seconds; the time between bytes and row is milliseconds
_ORPHANS_EVERY = 3600  # seconds; looking for them reads the whole store
_BATCH = 100
_SLICE = 0.2           # seconds that one sweep takes at most, but for the batch that it is in
_log = logging.getLogger("accepted.retention")


class Retention:
    """Call `sweep` every few seconds; it remembers how far it has come with looking for orphans."""

    def __init__(self, db: Database, store: Store, settings: Settings):
        self._db, self._store, self._settings = db, store, settings
        self._leaves: Iterator[Leaf] = iter(())
        self._next_orphans = 0.0
        self._end = 0.0

    def sweep(self) -> int:
        """Remove what has had its time; how many things that were."""
        self._end = clock.monotonic() + _SLICE
        removed = self._delete_doomed()  # first, because on a full disk this is what makes room
        for forget in (tombstones.bury_expired, self._forget_tombstones, self._forget_acts, resources.expire,
                       _expire_uploads):
            removed += self._in_batches(forget)
        removed += self._delete_doomed()
        if clock.monotonic() >= self._next_orphans:
            self._next_orphans = clock.monotonic() + _ORPHANS_EVERY
            self._leaves = self._store.leaves()
        return removed + self._sweep_orphans()

    def _in_time(self) -> bool:
        return clock.monotonic() < self._end

    def _in_batches(self, forget: Callable[..., int]) -> int:
        removed = 0
        while self._in_time():
            number = self._db.write(lambda tx: forget(tx, limit=_BATCH))
            removed += number
            if number < _BATCH:
                break
        return removed

    def _forget_tombstones(self, tx: Transaction, limit: int) -> int:
        return tombstones.forget(tx, self._settings.tombstones, limit)

    def _forget_acts(self, tx: Transaction, limit: int) -> int:
        return audit.forget(tx, self._settings.audit_retention, limit)

    def _delete_doomed(self) -> int:
        """Delete the bytes of doomed artifacts, then their rows. One whose bytes cannot be deleted now keeps its row."""
        removed, last = 0, 0
        while self._in_time():
            rows = self._db.read().all("SELECT id, key FROM artifacts WHERE state = 'doomed' AND id > :last ORDER BY id "
                                       "LIMIT :limit", last=last, limit=_BATCH)
            if not rows:
                break
            last = rows[-1].id
            deleted = [row.id for row in rows if self._delete(row.key)]
            removed += self._db.write(lambda tx, ids=deleted: _drop(tx, ids)) if deleted else 0
        return removed

    def _sweep_orphans(self) -> int:
        """Delete from the store what has lain there for an hour without a row, going on where the last call stopped."""
        removed = 0
        while self._in_time() and (leaves := list(islice(self._leaves, _BATCH))):
            old = [leaf.key for leaf in leaves if leaf.age >= ORPHANED_AFTER]
            names, named = placeholders("key", old)
            known = {row.key for row in self._db.read().all(f"SELECT key FROM artifacts WHERE key IN ({names})", **named)}
            for key in old:
                if key not in known and self._delete(key):
                    _log.warning("deleted %s, which no artifact names", key)
                    removed += 1
        return removed

    def _delete(self, key: str) -> bool:
        try:
            self._store.delete(key)
            return True
        except (OSError, ValueError, StorageUnavailable) as error:
            _log.error("%s cannot be deleted: %s", key, error)
            return False


def _expire_uploads(tx: Transaction, limit: int) -> int:
    """Uploads that no job took in time, or whose last job is gone."""
    return tx.run("""UPDATE artifacts SET state = 'doomed' WHERE id IN (
                       SELECT id FROM artifacts WHERE state = 'whole' AND expires_at <= :now ORDER BY expires_at LIMIT :limit)""",
                  now=tx.now, limit=limit)


def _drop(tx: Transaction, ids: list[int]) -> int:
    names, named = placeholders("id", ids)
    return tx.run(f"DELETE FROM artifacts WHERE id IN ({names}) AND state = 'doomed'", **named)
