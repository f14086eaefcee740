"""What happened, written down in the transaction of the change it tells of.

The table is the outbox: callbacks follow it with a cursor of their own, and a job's timeline is read from it.
"""

from typing import Any

from jobs.db import Row, Transaction


def write(tx: Transaction, job: Row, type_: str, subject: str | None = None) -> None:
    """Record an event of this job; `subject` is the path of what it tells about, the job itself if not given."""
    tx.run("INSERT INTO events (job_id, type, subject, callback_url, version, attempt, created_at) "
           "VALUES (:job_id, :type, :subject, :callback_url, :version, :attempt, :now)",
           job_id=job.id, type=type_, subject=subject or f"/v1/jobs/{job.id}", callback_url=job.callback_url,
           version=job.version, attempt=job.attempt, now=tx.now)


def bell(job: Row) -> dict[str, Any]:
    """The doorbell's message about this job: a hint, never the truth."""
    return {"id": job.id, "version": job.version, "status": job.status, "progress": job.progress, "stage": job.stage,
            "attempt": job.attempt, "owner": job.owner}
