"""A server's insides on disk, a sender, and receivers that are real."""

import pytest

import jobs.webhooks.models  # noqa: F401 - its tables belong to the schema
from jobs import clock
from jobs import settings as settings_module
from jobs.core import claim, lifecycle
from jobs.core.models import prepare
from jobs.core.outcome import Outcome, Succeeded
from jobs.core.submission import Submission, accept
from jobs.db import Database
from jobs.targets import Guard, system_resolver
from jobs.webhooks import log
from jobs.webhooks.delivery import Sender
from tests.outbound import receiving


def asked(owner="alice", callback_url=None, **more) -> Submission:
    return Submission(type="demo.drill", owner=owner, queue="default", payload="{}", timeout=60, retention=86400,
                      max_attempts=3, start_within=86400, callback_url=callback_url, **more)


class World:
    """Jobs that come and go, and the callbacks that they cause."""

    def __init__(self, folder, resolver=system_resolver, **overrides):
        self._clock = folder / "clock"
        self._offset = 0.0
        self.move(0)
        self.settings = settings_module.load({}, data_dir=str(folder), test_clock=str(self._clock),
                                             allowed_targets="127.0.0.0/8", **overrides)
        self.db = Database(self.settings)
        prepare(self.db, self.settings)
        self.guard = Guard(self.settings.allowed_targets, resolver=resolver)
        self.sender = Sender(self.db, self.settings, self.guard)

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self._offset += seconds
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(str(self._offset))
        fresh.rename(self._clock)

    def submit(self, **options) -> int:
        return self.db.write(lambda tx: accept(tx, asked(**options))).job.id

    def jobs(self, number: int, outcome: Outcome | None = None, **options) -> list[int]:
        """Jobs from beginning to end, all in one transaction."""
        def live(tx):
            ids = [accept(tx, asked(**options)).job.id for _ in range(number)]
            for _ in ids:
                running = claim.claim_next(tx, "default", "worker-1")
                lifecycle.settle(tx, running.id, 1, outcome or Succeeded("null"))
            return ids
        return self.db.write(live)

    def job(self, outcome: Outcome | None = None, **options) -> int:
        """A job from beginning to end."""
        return self.jobs(1, outcome, **options)[0]

    def run(self, sender: Sender | None = None) -> None:
        """Let the sender do all that is due now."""
        sender = sender or self.sender
        for _ in range(1000):
            sender.tick()
            claimed = not self.due()
            assert sender.settled(60)
            if claimed:
                return
        raise AssertionError("the sender does not come to rest")

    def due(self) -> int:
        return self.db.read().value("SELECT count(*) FROM deliveries WHERE state = 'pending' AND next_at <= :now",
                                    now=clock.wire(clock.now()))

    def deliveries(self, job_id: int) -> list[dict]:
        """What the log shows an admin."""
        return log.render(self.db.read(), log.of_job(self.db.read(), job_id), for_admin=True)

    def delivery(self, job_id: int) -> dict:
        [only] = self.deliveries(job_id)
        return only


@pytest.fixture
def make_world(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEPTED_TEST_CLOCK", str(tmp_path / "clock"))
    made = []

    def make(**options):
        made.append(World(tmp_path, **options))
        return made[-1]

    yield make
    for world in made:
        world.sender.close()
        world.db.close()


@pytest.fixture
def world(make_world):
    return make_world()


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one
