"""What a year of jobs slows: every everyday statement on 1,000 finished jobs and on 300,000.

    python bench/year.py [ROWS]             SQLite in a temporary folder; about a minute for 300,000

The rows are written straight into the tables, with what belongs to them (attempts, events, idempotency keys). Prints
microseconds, each the median of many, and the ratio. Look at the ratio.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs import clock, settings  # noqa: E402
from jobs.artifacts.retention import Retention  # noqa: E402
from jobs.artifacts.store import open_store  # noqa: E402
from jobs.core import claim, lifecycle, models, reads, submission, tallies, tombstones  # noqa: E402
from jobs.core.outcome import Succeeded  # noqa: E402
from jobs.db import Database  # noqa: E402
from tests.core import given  # noqa: E402

FEW, ROUNDS = 1_000, 200


def prepared(folder: Path, rows: int) -> Database:
    """A database with so many finished jobs of 50 owners, spread over a year; a hundredth has expired."""
    configuration = settings.load({}, data_dir=folder)
    db = Database(configuration)
    models.prepare(db, configuration)
    job = given.settled(db, payload='{"seconds":1,"text":"' + "x" * 200 + '"}')

    def multiply(tx):
        names = [row.name for row in tx.all("SELECT name FROM pragma_table_info('jobs')")]
        new = {"id": "n + 1", "version": "version + n", "owner": "'owner' || (n % 50)", "created_at": "'2026-01-01T00:00:00.000Z'",
               "expires_at": "CASE WHEN n % 100 = 0 THEN '2026-01-02T00:00:00.000Z' ELSE '2999-01-01T00:00:00.000Z' END"}
        series = "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < :rows)"
        tx.run(f"{series} INSERT INTO jobs ({', '.join(names)}) SELECT {', '.join(new.get(name, name) for name in names)} "
               "FROM series, jobs WHERE jobs.id = :id", rows=rows, id=job.id)
        tx.run(f"{series} INSERT INTO attempts (job_id, attempt, worker, started_at, ended_at, outcome) "
               "SELECT n + 1, 1, 'w', :now, :now, 'succeeded' FROM series", rows=rows, now=tx.now)
        tx.run(f"{series} INSERT INTO events (job_id, type, subject, version, attempt, created_at) SELECT n + 1, 'job.succeeded', "
               "'/v1/jobs/' || (n + 1), :version + n, 1, :now FROM series", rows=rows, now=tx.now, version=job.version)
        tx.run(f"{series} INSERT INTO idempotency (owner, method, path, key, fingerprint, job_id, created_at) SELECT "
               "'owner' || (n % 50), 'POST', '/v1/jobs', 'key' || n, 'f', n + 1, :now FROM series", rows=rows, now=tx.now)
        tx.run("DELETE FROM tallies")
        tx.run("INSERT INTO tallies SELECT queue, status, priority, owner, type, count(*) FROM jobs GROUP BY 1, 2, 3, 4, 5")
        tx.run("UPDATE meta SET value = value + :rows WHERE name = 'version'", rows=rows)

    db.write(multiply)
    db.checkpoint()
    return db


def life(db: Database) -> None:
    """Accept, claim and settle one job, as relaxed commits: the disk is not what is measured."""
    db.write(lambda tx: submission.accept(tx, given.asked()), durable=False)
    row = db.write(lambda tx: claim.claim_next(tx, "default", "w"), durable=False)
    db.write(lambda tx: lifecycle.settle(tx, row.id, row.attempt, Succeeded("1")), durable=False)


def due(db: Database) -> None:
    """What the dispatcher asks once a second."""
    db.read().all("SELECT queue FROM tallies WHERE status = 'queued' GROUP BY queue HAVING sum(number) > 0")
    db.read().value("SELECT min(due_at) FROM jobs WHERE status = 'queued' AND queue = 'default' AND due_at > :now", now=clock.wire(clock.now()))


def expire(db: Database) -> None:
    """One expired job, from its row to its tombstone."""
    db.write(lambda tx: tombstones.bury_expired(tx, limit=1), durable=False)


def measures(rows: int) -> dict[str, Callable[[Database], object]]:
    """What is timed."""
    return {
        "accept, claim, settle": life,
        "read a job": lambda db: reads.get(db.read(), rows // 2),
        "a page of 50": lambda db: reads.page(db.read(), 50),
        "a page of an owner's": lambda db: reads.page(db.read(), 50, owner="owner7"),
        "a deep page": lambda db: reads.page(db.read(), 50, before=rows // 2),
        "failed ones (there are none)": lambda db: reads.page(db.read(), 50, status=("failed",)),
        "ended ones": lambda db: reads.page(db.read(), 50, status=("succeeded", "failed")),
        "changes since": lambda db: reads.changes(db.read(), reads.latest(db.read()) - 40, 50),
        "tallies": lambda db: tallies.by_status(db.read()),
        "what is due": due,
        "expire one": expire,
    }


def median(work: Callable[[Database], object], db: Database) -> float:
    """Microseconds."""
    work(db)
    times = []
    for _ in range(ROUNDS if work is not expire else 8):
        began = time.perf_counter()
        work(db)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def main(many: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for rows in (FEW, many):
            (Path(folder) / str(rows)).mkdir()
            db = prepared(Path(folder) / str(rows), rows)
            found[rows] = {name: median(work, db) for name, work in measures(rows).items()}
            swept = Retention(db, open_store(settings.load({}, data_dir=Path(folder) / str(rows))), settings.load({}))
            began = time.perf_counter()
            swept.sweep()
            found[rows]["one sweep (it stops by itself)"] = (time.perf_counter() - began) * 1e6
            db.close()
        print(f"{'µs':32}{FEW:>10,}{many:>10,}{'ratio':>8}")
        for name, few in found[FEW].items():
            print(f"{name:32}{few:>10,.0f}{found[many][name]:>10,.0f}{found[many][name] / few:>8.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
