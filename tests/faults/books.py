"""The books of a server, held against each other: what must be true whenever nothing runs any more."""

from collections import Counter

from jobs import settings
from jobs.db import Database
from tests.stack import TERMINAL


def open_books(stack) -> Database:
    """The database of a stack, for reading."""
    return Database(settings.load(stack.environment))


def unfinished(reader) -> list[int]:
    """Jobs that are not terminal."""
    return [row.id for row in reader.all("SELECT id FROM jobs WHERE status IN ('queued', 'running') ORDER BY id")]


def check(reader, promised: set[int], lines: list[str]) -> None:
    """Every promise kept, once; `lines` are the `job:attempt` that test.line has written."""
    jobs = {row.id: row for row in reader.all("SELECT * FROM jobs")}
    assert promised <= set(jobs), f"accepted and gone: {sorted(promised - set(jobs))}"
    assert {row.status for row in jobs.values()} <= TERMINAL

    ends = Counter(row.job_id for row in reader.all("SELECT job_id, type FROM events") if row.type.removeprefix("job.") in TERMINAL)
    assert {id: ends[id] for id in jobs if ends[id] != 1} == {}, "each job ends once"

    attempts = {(row.job_id, row.attempt): row for row in reader.all("SELECT * FROM attempts")}
    assert [key for key, row in attempts.items() if not (row.ended_at and row.outcome)] == []
    per_job = Counter(id for id, _ in attempts)
    assert {id: (row.attempt, per_job[id]) for id, row in jobs.items() if row.attempt != per_job[id]} == {}
    worked = {key for key, row in attempts.items() if row.outcome in ("succeeded", "partialSuccess")}
    assert worked == {(id, row.attempt) for id, row in jobs.items() if row.status in ("succeeded", "partialSuccess")}

    done = [tuple(map(int, line.split(":"))) for line in lines]
    assert [key for key, times in Counter(done).items() if times > 1] == [], "no attempt runs twice"
    assert set(done) <= set(attempts), "nothing runs that is not recorded"
    of_ours = {key for key in worked if jobs[key[0]].type == "test.line"}
    assert of_ours <= set(done), "nothing is said to have worked that did not run"

    assert reader.all("SELECT * FROM leases") == []
    counted = Counter((row.queue, row.status, row.priority, row.owner, row.type) for row in jobs.values())
    tallied = {(row.queue, row.status, row.priority, row.owner, row.type): row.number for row in reader.all("SELECT * FROM tallies")}
    assert {key: number for key, number in tallied.items() if number} == dict(counted)
    if reader.dialect == "sqlite":
        assert reader.value("PRAGMA integrity_check") == "ok"
