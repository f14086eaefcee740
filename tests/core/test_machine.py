"""The state machine under random commands: whatever happens, the promises hold."""

import tempfile
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from jobs import settings
from jobs.core import lifecycle, models, tallies, tombstones
from jobs.core.outcome import Again, Cancelled, Failed, Succeeded
from jobs.core.states import EDGES, TERMINAL, Status
from jobs.db import Database
from jobs.errors import Problem
from tests.core import given

OUTCOMES = [Succeeded("1"), Succeeded("1", [{"part": "a", "detail": "b"}]), Failed(Problem("drill-failed")),
            Again(Problem("job-raised")), Cancelled()]


class Lifecycle(RuleBasedStateMachine):
    jobs = Bundle("jobs")
    attempts = Bundle("attempts")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        configuration = settings.load({}, data_dir=Path(self.folder.name))
        self.db = Database(configuration)
        models.prepare(self.db, configuration)
        self.seen: dict[int, tuple[str, int, int]] = {}

    @rule(target=jobs, attempts=strategies.integers(1, 3), owner=strategies.sampled_from(["alice", "bob"]))
    def submit(self, attempts, owner):
        return given.queued(self.db, max_attempts=attempts, owner=owner).id

    @rule(target=attempts)
    def claim(self):
        row = given.claimed(self.db)
        return (row.id, row.attempt) if row else (0, 0)

    @rule(attempt=attempts, outcome=strategies.sampled_from(OUTCOMES))
    def settle(self, attempt, outcome):
        self.db.write(lambda tx: lifecycle.settle(tx, *attempt, outcome))

    @rule(attempt=attempts, progress=strategies.integers(0, 99))
    def report(self, attempt, progress):
        self.db.write(lambda tx: lifecycle.report(tx, *attempt, progress, "stage"))

    @rule(attempt=attempts)
    def lose(self, attempt):
        self.db.write(lambda tx: lifecycle.lose(tx, *attempt, Problem("worker-lost")))

    @rule(attempt=attempts)
    def hand_back(self, attempt):
        self.db.write(lambda tx: lifecycle.hand_back(tx, *attempt))

    @rule(job=jobs)
    def cancel(self, job):
        self.db.write(lambda tx: lifecycle.request_cancel(tx, job))

    @rule(job=consumes(jobs))
    def purge(self, job):
        self.db.write(lambda tx: tombstones.purge(tx, job))

    @invariant()
    def every_step_is_an_edge(self):
        for row in self.db.read().all("SELECT id, status, version, attempt FROM jobs"):
            status, version, attempt = self.seen.get(row.id, (row.status, 0, 0))
            assert row.status == status or row.status in _reachable(Status(status))
            assert row.version >= version and row.attempt >= attempt
            assert row.version > version or row.status == status
            self.seen[row.id] = (row.status, row.version, row.attempt)

    @invariant()
    def no_job_is_stuck(self):
        """Every active job can be claimed or is leased; nothing else is leased."""
        reader = self.db.read()
        assert reader.value("SELECT count(*) FROM jobs WHERE status = 'queued' AND due_at IS NULL") == 0
        running = {row.id: row.attempt for row in reader.all("SELECT id, attempt FROM jobs WHERE status = 'running'")}
        assert running == {row.job_id: row.attempt for row in reader.all("SELECT * FROM leases")}

    @invariant()
    def tallies_are_right(self):
        counted = self.db.read().all("SELECT status, count(*) AS n FROM jobs WHERE purged_at IS NULL GROUP BY status")
        assert {k: n for k, n in tallies.by_status(self.db.read()).items() if n} == {row.status: row.n for row in counted}

    def teardown(self):
        self.db.close()
        self.folder.cleanup()


def _reachable(status):
    """Where one command may lead: an edge, or for a running job back to the queue and on to its end."""
    return EDGES[status] | (TERMINAL if Status.QUEUED in EDGES[status] else set())


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = hypothesis_settings(max_examples=25, stateful_step_count=30, deadline=None)
