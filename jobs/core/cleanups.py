"""Clean-ups that are owed: what a type declares to run after an attempt that did not succeed, until it has worked.

One is noted with the start of an attempt, so that whatever ends the attempt finds it. It falls due with an end other
than success. The next attempt at the job runs it before it begins; once the job has ended, any worker of its queue does.
"""

from jobs import clock
from jobs.db import Reader, Row, Transaction

TRIES = 5
_PAUSE = 90  # seconds until the second try, doubled with each; longer than a clean-up may take


def owe(tx: Transaction, row: Row) -> None:
    """An attempt starts whose type declares a clean-up."""
    tx.run("INSERT INTO cleanups (job_id, attempt, queue, tries) VALUES (:id, :attempt, :queue, 0)",
           id=row.id, attempt=row.attempt, queue=row.queue)


def fall_due(tx: Transaction, row: Row) -> None:
    """The attempt has ended without success."""
    tx.run("UPDATE cleanups SET due_at = :now WHERE job_id = :id AND attempt = :attempt",
           id=row.id, attempt=row.attempt, now=tx.now)


def drop(tx: Transaction, job_id: int, attempt: int) -> None:
    """Nothing is owed any more for this attempt and those before it."""
    tx.run("DELETE FROM cleanups WHERE job_id = :id AND attempt <= :attempt", id=job_id, attempt=attempt)


def before(reader: Reader, job_id: int, attempt: int) -> list[int]:
    """The earlier attempts at the job for which one is owed, in order."""
    rows = reader.all("SELECT attempt FROM cleanups WHERE job_id = :id AND attempt < :attempt ORDER BY attempt",
                      id=job_id, attempt=attempt)
    return [row.attempt for row in rows]


def take(tx: Transaction, job_id: int, attempt: int) -> int:
    """Note that it is tried now; should that come to nothing, it is due again later. The tries that are left."""
    tries = tx.value("UPDATE cleanups SET tries = tries + 1 WHERE job_id = :id AND attempt = :attempt RETURNING tries",
                     id=job_id, attempt=attempt) or 0
    tx.run("UPDATE cleanups SET due_at = :due_at WHERE job_id = :id AND attempt = :attempt", id=job_id, attempt=attempt,
           due_at=clock.after(_PAUSE * 2 ** (tries - 1)))
    if tries >= TRIES:
        drop(tx, job_id, attempt)
    return TRIES - tries


_DUE = """FROM cleanups JOIN jobs ON jobs.id = cleanups.job_id
          WHERE cleanups.due_at <= :now AND jobs.finished_at IS NOT NULL AND jobs.purged_at IS NULL"""


def take_next(tx: Transaction, queue: str) -> Row | None:
    """One that is due for a job that has ended, or None: the job's row, with `attempt` the one to clean up after."""
    found = tx.one(f"""SELECT cleanups.job_id, cleanups.attempt {_DUE} AND cleanups.queue = :queue
                       ORDER BY cleanups.due_at LIMIT 1""", queue=queue, now=tx.now)
    if found is None:
        return None
    take(tx, found.job_id, found.attempt)
    row = tx.one("SELECT * FROM jobs WHERE id = :id", id=found.job_id)
    row["attempt"] = found.attempt
    return row


def waiting(reader: Reader) -> dict[str, int]:
    """How many are due in each queue."""
    rows = reader.all(f"SELECT cleanups.queue, count(*) AS number {_DUE} GROUP BY cleanups.queue",
                      now=clock.wire(clock.now()))
    return {row.queue: int(row.number) for row in rows}
