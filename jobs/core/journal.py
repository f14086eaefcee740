"""The lines that handlers write while they work."""

from jobs.db import Reader, Row, Transaction, placeholders


def write(tx: Transaction, job_id: int, attempt: int, lines: list[tuple[str, str]]) -> None:
    """Keep (time, text) lines, if the attempt still runs; a late worker's lines are dropped."""
    running = tx.value("SELECT 1 FROM leases WHERE job_id = :id AND attempt = :attempt", id=job_id, attempt=attempt)
    for at, line in lines if running else ():
        tx.run("INSERT INTO logs (job_id, attempt, created_at, line) VALUES (:id, :attempt, :at, :line)",
               id=job_id, attempt=attempt, at=at, line=line)


def read(reader: Reader, job_id: int, after: int = 0, limit: int = 1000) -> list[Row]:
    """Lines with an id greater than `after`, in the order in which they were written."""
    return reader.all("""SELECT id, attempt, created_at, line FROM logs WHERE job_id = :job_id AND id > :after
                         ORDER BY id LIMIT :limit""", job_id=job_id, after=after, limit=limit)


def of_jobs(reader: Reader, job_ids: set[int], after: int, limit: int) -> list[Row]:
    """Lines of several jobs with an id greater than `after`, in the order in which they were written."""
    names, ids = placeholders("job", job_ids)
    return reader.all(f"""SELECT id, job_id, attempt, created_at, line FROM logs WHERE id > :after AND job_id IN ({names})
                          ORDER BY id LIMIT :limit""", after=after, limit=limit, **ids)
