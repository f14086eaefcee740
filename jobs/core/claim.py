"""Which job is next: the one place where order is decided, on the freshest state, by the worker that will run it.

First the more urgent; among equals the owner with fewer running jobs, then the one served longest ago; of his jobs the
one that became due first. Types at their limit of concurrent jobs wait.
"""

from collections.abc import Collection, Mapping

from jobs.core import cleanups, lifecycle
from jobs.db import Reader, Row, Transaction, placeholders


def claim_next(tx: Transaction, queue: str, worker: str, limits: Mapping[str, int] | None = None,
               cleaned: Collection[str] = ()) -> Row | None:
    """Start the next due job of `queue` and answer its row, or None when there is none.

    `limits` says how many jobs of a type may run at once, over all workers; `cleaned` names the types with a clean-up.
    The row's `payload_private or payload` is the JSON for the handler.
    """
    names, busy = placeholders("busy", [name for name, left in room(tx, limits or {}).items() if left <= 0])
    not_busy = f"AND type NOT IN ({names})" if busy else ""
    for priority, owner in _candidates(tx, queue):
        job_id = tx.value(
            f"""SELECT id FROM jobs WHERE status = 'queued' AND queue = :queue AND priority = :priority AND owner = :owner
                AND due_at <= :now {not_busy} ORDER BY due_at, id LIMIT 1""",
            queue=queue, priority=priority, owner=owner, now=tx.now, **busy)
        row = lifecycle.start(tx, job_id, worker) if job_id is not None else None
        if row is not None:
            if row.type in cleaned:
                cleanups.owe(tx, row)
            tx.run("""INSERT INTO served (queue, owner, version) VALUES (:queue, :owner, :version)
                      ON CONFLICT (queue, owner) DO UPDATE SET version = excluded.version""",
                   queue=queue, owner=owner, version=row.version)
            return row
    return None


def taken(tx: Transaction, worker: str) -> Row | None:
    """The job that this worker holds a lease of: for one that cannot tell whether its claim was committed."""
    return tx.one("""SELECT jobs.* FROM leases CROSS JOIN jobs  -- which SQLite reads in this order
                     WHERE jobs.id = leases.job_id AND leases.attempt = jobs.attempt
                     AND leases.worker = :worker AND jobs.status = 'running'""", worker=worker)


def _candidates(tx: Transaction, queue: str) -> list[tuple[int, str]]:
    rows = tx.all(
        """SELECT waiting.priority, waiting.owner FROM
             (SELECT priority, owner FROM tallies WHERE queue = :queue AND status = 'queued'
              GROUP BY priority, owner HAVING sum(number) > 0) AS waiting
           LEFT JOIN (SELECT owner, sum(number) AS number FROM tallies WHERE queue = :queue AND status = 'running'
                      GROUP BY owner) AS running ON running.owner = waiting.owner
           LEFT JOIN served ON served.queue = :queue AND served.owner = waiting.owner
           ORDER BY waiting.priority, coalesce(running.number, 0), coalesce(served.version, 0), waiting.owner""", queue=queue)
    return [(row.priority, row.owner) for row in rows]


def room(reader: Reader, limits: Mapping[str, int]) -> dict[str, int]:
    """How many more jobs of these types may run now; 0 or less for one at its limit."""
    if not limits:
        return {}
    names, types = placeholders("type", limits)
    rows = reader.all(f"""SELECT type, sum(number) AS number FROM tallies WHERE status = 'running' AND type IN ({names})
                          GROUP BY type""", **types)
    return {**limits, **{row.type: limits[row.type] - int(row.number) for row in rows}}
