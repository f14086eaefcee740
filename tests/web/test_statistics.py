"""The figures of the overview: counted once, then carried on."""

from datetime import UTC, datetime

import pytest

from jobs import clock, settings
from jobs.core import models
from jobs.core.outcome import Cancelled, Failed, Succeeded
from jobs.db import Database
from jobs.errors import Problem
from jobs.web.dashboard.statistics import Ledger
from tests.core import given

START = int(datetime(2026, 3, 10, 12, 30, tzinfo=UTC).timestamp())


class World:
    """A database, a clock that a test sets, and a reader that notes since when ends are counted."""

    def __init__(self, folder, monkeypatch):
        self._clock = folder / "clock"
        monkeypatch.setenv("ACCEPTED_TEST_CLOCK", str(self._clock))
        self.at(0)
        configuration = settings.load({}, data_dir=folder)
        self.db = Database(configuration)
        models.prepare(self.db, configuration)
        self.dialect = self.db.dialect
        self.counted_since: list[str] = []

    def at(self, seconds: float) -> None:
        self._clock.write_text("0")
        self._clock.write_text(str(START + seconds - clock.now().timestamp()))

    def ends(self, outcome=Succeeded("1"), owner="alice") -> None:
        given.settled(self.db, outcome, owner=owner)

    def sums(self, ledger: Ledger, span: str) -> tuple[int, int, int]:
        figures = ledger.read(self, span)
        return figures.well, figures.badly, figures.cancelled

    def all(self, sql, **parameters):
        if "count(*)" in sql:
            self.counted_since.append(parameters["since"])
        return self.db.read().all(sql, **parameters)


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World(tmp_path, monkeypatch)
    yield made
    made.db.close()


def test_what_ended_is_counted_by_kind_owner_and_span(world):
    everyone, alice = Ledger(None), Ledger("alice")
    world.at(-3 * 86400)
    world.ends()
    world.at(-7200)
    world.ends(Failed(Problem("handler-error", "no")))
    world.at(-60)
    world.ends(), world.ends(owner="bob"), world.ends(Cancelled())
    world.at(0)
    assert [world.sums(everyone, span) for span in ("hour", "day", "week")] == [(2, 0, 1), (2, 1, 1), (3, 1, 1)]
    assert [world.sums(alice, span) for span in ("week", "day", "hour")] == [(2, 1, 1), (1, 1, 1), (1, 0, 1)]


def test_later_looks_count_only_what_is_new(world):
    ledger = Ledger(None)
    world.ends()
    world.at(10)
    assert world.sums(ledger, "week") == (1, 0, 0)
    world.counted_since.clear()
    for number, later in enumerate((20, 400, 90_000), 2):
        world.at(later)
        world.ends()
        assert world.sums(ledger, "week") == (number, 0, 0)
    assert min(world.counted_since) >= clock.wire(datetime.fromtimestamp(START - 600, UTC)), "the week was counted once"
    assert world.sums(ledger, "hour") == (1, 0, 0)


def test_a_clock_that_is_set_back_begins_anew(world):
    ledger = Ledger(None)
    world.ends()
    world.at(3600)
    assert world.sums(ledger, "day") == (1, 0, 0)
    world.at(-600)
    world.ends()
    assert world.sums(ledger, "day") == (2, 0, 0)
