"""Artifacts in the state that a test needs."""

from jobs import clock
from jobs.artifacts import publish, records
from jobs.artifacts.store import digest
from jobs.core import lifecycle
from jobs.core.outcome import Succeeded
from tests.core.given import queued, row_of


class House:
    """A database, a store and what is done with them."""

    def __init__(self, db, store, settings, made):
        self.db, self.store, self.settings, self.made = db, store, settings, made

    def upload(self, content=b"up", owner="alice", seconds=3600.0, name="up.csv"):
        local = self.made(content)
        size, sha256 = digest(local)
        return publish.upload(self.db, self.store, self.settings, local, owner=owner, name=name, media_type="text/csv",
                              size=size, sha256=sha256, expires_at=clock.after(seconds))

    def running(self, **changes):
        """A fresh job, started whatever else waits."""
        job = queued(self.db, **changes)
        return self.db.write(lambda tx: lifecycle.start(tx, job.id, "w1"))

    def leave(self, job, content=b"left", name="a.csv"):
        put = publish.folder if isinstance(content, dict) else publish.file
        return put(self.db, self.store, self.settings, self.made(content), owner=job.owner, job_id=job.id, attempt=job.attempt,
                   name=name)

    def settle(self, job, outcome=Succeeded("1")):
        self.db.write(lambda tx: lifecycle.settle(tx, job.id, job.attempt, outcome))
        return row_of(self.db, job.id)

    def get(self, artifact):
        return records.get(self.db.read(), artifact.id)

    def run(self, sql, **values):
        return self.db.write(lambda tx: tx.run(sql, **values))

    def has_bytes(self, artifact):
        return artifact.key in {leaf.key for leaf in self.store.leaves()}
