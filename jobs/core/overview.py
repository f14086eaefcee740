"""What people want to see at a glance: what runs, what waits and in which order, what ended lately; a job's history.

Every question is answered from an index over few rows, so that it costs the same at a million jobs. A CROSS JOIN keeps
SQLite from starting at the jobs where it should start at the few leases; to others it means nothing.
"""

from jobs.core.reads import LIST_LIMIT, like
from jobs.core.states import TERMINAL, Status
from jobs.db import Reader, Row

_COLUMNS = ", ".join(f"jobs.{name}" for name in """
    id version owner type queue status priority progress stage eta error attempt max_attempts next_attempt_at created_at
    updated_at started_at finished_at cancel_requested_at not_before due_at retry_of resource tags""".split())
_COLUMNS += f", CASE WHEN jobs.payload_size <= {LIST_LIMIT} THEN jobs.payload END AS payload"
_GROUPS = 100  # (queue, priority, owner) groups that are asked for their next jobs


def running(reader: Reader, owner: str | None, limit: int) -> list[Row]:
    """Jobs that a worker holds now, the latest start first; `attempt_at` tells when this attempt began."""
    of_owner = "" if owner is None else "AND jobs.owner = :owner"
    return reader.all(f"""SELECT {_COLUMNS}, leases.started_at AS attempt_at, leases.worker
                          FROM leases CROSS JOIN jobs
                          WHERE jobs.id = leases.job_id AND jobs.status = 'running' {of_owner}
                          ORDER BY leases.started_at DESC, jobs.id DESC LIMIT :limit""",
                      owner=owner, limit=limit)


def waiting(reader: Reader, owner: str | None, limit: int, now: str) -> list[Row]:
    """Queued jobs: first those that may start, by urgency, then those whose time is still to come, by time."""
    of_owner = "" if owner is None else "AND owner = :owner"
    groups = reader.all(f"""SELECT queue, priority, owner FROM tallies WHERE status = 'queued' {of_owner}
                            GROUP BY queue, priority, owner HAVING sum(number) > 0
                            ORDER BY priority, queue, owner LIMIT {_GROUPS}""", owner=owner)
    found = [row for group in groups for row in reader.all(
        f"""SELECT {_COLUMNS} FROM jobs
            WHERE status = 'queued' AND queue = :queue AND priority = :priority AND owner = :owner
            ORDER BY due_at, id LIMIT :limit""", limit=limit, **group)]

    def order(row: Row) -> tuple:
        later = row.due_at > now
        return later, 0 if later else row.priority, row.due_at, row.id

    return sorted(found, key=order)[:limit]


def lately(reader: Reader, owner: str | None, statuses: tuple[Status, ...], limit: int) -> list[Row]:
    """Jobs that ended in one of these states, the latest end first."""
    of_owner = "" if owner is None else "AND owner = :owner"
    found = [row for status in statuses for row in reader.all(
        f"""SELECT {_COLUMNS} FROM jobs
            WHERE status = :status AND finished_at IS NOT NULL AND purged_at IS NULL {of_owner}
            ORDER BY finished_at DESC LIMIT :limit""", status=status, owner=owner, limit=limit)]
    return sorted(found, key=lambda row: (row.finished_at, row.id), reverse=True)[:limit]


def history(reader: Reader, job_id: int, limit: int = 200) -> list[Row]:
    """What happened to a job, oldest first: type, attempt, subject, created_at; the last `limit` events."""
    rows = reader.all("""SELECT id, type, attempt, subject, created_at FROM events WHERE job_id = :id
                         ORDER BY id DESC LIMIT :limit""", id=job_id, limit=limit)
    return rows[::-1]


def attempts(reader: Reader, job_id: int, limit: int = 200) -> list[Row]:
    """The tries at a job, oldest first; the last `limit` of them."""
    rows = reader.all("SELECT * FROM attempts WHERE job_id = :id ORDER BY attempt DESC LIMIT :limit",
                      id=job_id, limit=limit)
    return rows[::-1]


def log_tail(reader: Reader, job_id: int, limit: int, having: str = "") -> list[Row]:
    """The last lines of a job's log (of those with the text `having`), in the order in which they were written."""
    which = "AND line LIKE :having ESCAPE '!'" if having else ""
    rows = reader.all(f"""SELECT id, attempt, created_at, line FROM logs WHERE job_id = :id {which}
                          ORDER BY id DESC LIMIT :limit""", id=job_id, limit=limit, having=f"%{like(having)}%")
    return rows[::-1]


def leases(reader: Reader, limit: int = 200) -> list[Row]:
    """Jobs at work with the worker that holds each, whoever owns them."""
    return reader.all(f"""SELECT {_COLUMNS}, leases.started_at AS attempt_at, leases.worker FROM leases CROSS JOIN jobs
                          WHERE jobs.id = leases.job_id ORDER BY leases.worker LIMIT :limit""", limit=limit)


def queues(reader: Reader, owner: str | None) -> list[Row]:
    """Per queue how many jobs wait and run: queue, waiting, running."""
    of_owner = "" if owner is None else "AND owner = :owner"
    return reader.all(f"""SELECT queue, sum(CASE WHEN status = 'queued' THEN number ELSE 0 END) AS waiting,
                          sum(CASE WHEN status = 'running' THEN number ELSE 0 END) AS running FROM tallies
                          WHERE status IN ('queued', 'running') {of_owner} GROUP BY queue ORDER BY queue""", owner=owner)


def running_by_type(reader: Reader) -> dict[str, int]:
    """How many jobs of each type run."""
    rows = reader.all("SELECT type, sum(number) AS number FROM tallies WHERE status = 'running' GROUP BY type")
    return {row.type: int(row.number) for row in rows}


def ended_by_minute(reader: Reader, owner: str | None, since: str, until: str) -> list[Row]:
    """How many jobs ended in each state in each minute of a stretch of time: status, minute (as text), number."""
    of_owner = "" if owner is None else "AND owner = :owner"
    return [row for status in sorted(TERMINAL) for row in reader.all(
        f"""SELECT status, substr(finished_at, 1, 16) AS minute, count(*) AS number FROM jobs
            WHERE status = :status AND finished_at >= :since AND finished_at < :until {of_owner} GROUP BY 1, 2""",
        status=status, since=since, until=until, owner=owner)]


def latest_spans(reader: Reader, owner: str | None, since: str, limit: int = 200) -> list[Row]:
    """When the latest jobs that succeeded since an instant started and ended."""
    of_owner = "" if owner is None else "AND owner = :owner"
    return reader.all(f"""SELECT started_at, finished_at FROM jobs WHERE status = 'succeeded' AND finished_at >= :since
                          AND started_at IS NOT NULL {of_owner} ORDER BY finished_at DESC LIMIT :limit""",
                      since=since, owner=owner, limit=limit)
