"""The sweeper: ends attempts whose worker fell silent, and jobs that nobody started in time.

A lease is judged by how long its `beat` has stood still on our own monotonic clock. No timestamps are compared, so a
clock that jumps on any machine loses nobody's work.
"""

import logging

from jobs import clock
from jobs.core import lifecycle
from jobs.db import Database, Row
from jobs.errors import Problem

_BATCH = 100
_log = logging.getLogger(__name__)


class Sweeper:
    """Call `sweep` regularly; it remembers for how long it has seen each beat stand still."""

    def __init__(self, db: Database, lease: float):
        self._db = db
        self._lease = lease
        self._still: dict[tuple[int, int], tuple[int, float]] = {}  # (job, attempt) -> beat, seconds it has stood still
        self._looked = clock.monotonic()

    def sweep(self) -> int:
        """End what has to be ended; how many jobs that were."""
        return self._end_lost() + self._end_never_started()

    def _end_lost(self) -> int:
        since, self._looked = self._looked, clock.monotonic()
        # A long time without a look, because we or the whole machine stood still, tells nothing about workers.
        step = min(self._looked - since, self._lease / 3)
        leases = self._db.read().all("SELECT job_id, attempt, worker, beat FROM leases")
        if leases:
            self._db.check()    # a beat that cannot be written is no sign of death: while this raises no time counts
        self._still = {(row.job_id, row.attempt): (row.beat, self._stood(row, step)) for row in leases}
        lost = [row for row in leases if self._still[row.job_id, row.attempt][1] > self._lease]
        return sum(self._lose(row) for row in lost)

    def _stood(self, row: Row, step: float) -> float:
        beat, still = self._still.get((row.job_id, row.attempt), (None, 0.0))
        return still + step if beat == row.beat else 0.0

    def _lose(self, row: Row) -> bool:
        problem = Problem("worker-lost", f"The worker {row.worker} gave no sign for {self._lease:g} seconds.")

        def end(tx):
            # The last look, inside the transaction: a beat that came meanwhile saves the attempt.
            beat = tx.value("SELECT beat FROM leases WHERE job_id = :id AND attempt = :attempt",
                            id=row.job_id, attempt=row.attempt)
            return lifecycle.lose(tx, row.job_id, row.attempt, problem) if beat == row.beat else None

        status = self._db.write(end)
        if status is not None:
            _log.warning("job %s, attempt %s: %s It is now %s.", row.job_id, row.attempt, problem.detail, status)
        return status is not None

    def _end_never_started(self) -> int:
        late = self._db.read().all(
            "SELECT id FROM jobs WHERE status = 'queued' AND start_by IS NOT NULL AND start_by <= :now "
            "ORDER BY start_by LIMIT :limit", now=clock.wire(clock.now()), limit=_BATCH)
        ended = [row.id for row in late if self._db.write(lambda tx, id=row.id: lifecycle.expire_queued(tx, id))]
        return len(ended)
