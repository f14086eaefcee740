"""How many jobs stand where, kept up to date by every transition, so that no page ever counts a big table."""

from jobs.db import Reader, Row, Transaction

_ADD = """INSERT INTO tallies (queue, status, priority, owner, type, number) VALUES (:queue, :status, :priority, :owner, :type, :by)
          ON CONFLICT (queue, status, priority, owner, type) DO UPDATE SET number = tallies.number + excluded.number"""


def add(tx: Transaction, job: Row, status: str, by: int) -> None:
    """Count a job in (1) or out (-1) of a status."""
    tx.run(_ADD, queue=job.queue, status=status, priority=job.priority, owner=job.owner, type=job.type, by=by)


def move(tx: Transaction, job: Row, source: str, target: str) -> None:
    """Count a job from one status to another."""
    add(tx, job, source, -1)
    add(tx, job, target, 1)


def by_status(reader: Reader, owner: str | None = None) -> dict[str, int]:
    """Jobs in each status, of one owner or of all."""
    of_owner = "" if owner is None else "WHERE owner = :owner"
    rows = reader.all(f"SELECT status, sum(number) AS number FROM tallies {of_owner} GROUP BY status", owner=owner)
    return {row.status: int(row.number) for row in rows}


def waiting(reader: Reader) -> dict[str, int]:
    """Queued jobs in each queue."""
    rows = reader.all("SELECT queue, sum(number) AS number FROM tallies WHERE status = 'queued' GROUP BY queue")
    return {row.queue: int(row.number) for row in rows}
