"""A desk for each kind of database: a shop's database, the operator's file, and a worker that exports from it."""

import json
import os
import signal
import sqlite3
from contextlib import closing, contextmanager

import pytest

from jobs.artifacts.store import open_store
from jobs.webhooks import models as _tables_of_callbacks  # noqa: F401 - the dispatcher looks into them
from tests.work.house import House, wait_for

FILE = """
[sources.shop]
url = "{url}"
[sources.shop.queries.orders]
sql = "SELECT id, customer FROM orders WHERE (:customer IS NULL OR customer = :customer) AND id >= :least ORDER BY id"
params = {{ customer = {{ type = "text", optional = true }}, least = {{ type = "integer", default = 0 }} }}
[sources.shop.queries.echo]
sql = "SELECT :text AS text, :whole AS whole, :real AS real, :yes AS yes, :day AS day"
[sources.shop.queries.echo.params]
text = {{ type = "text" }}
whole = {{ type = "integer" }}
real = {{ type = "number" }}
yes = {{ type = "boolean" }}
day = {{ type = "date" }}
[sources.shop.queries.at]
sql = "SELECT id FROM orders WHERE placed >= :since ORDER BY id"
params.since = {{ type = "datetime" }}
[sources.shop.queries.twins]
sql = "SELECT id, id, customer AS id FROM orders ORDER BY 1"
[sources.shop.queries.broken]
sql = "SELECT id FROM nowhere"
[sources.shop.queries.writing]
sql = "{writing}"
[sources.shop.queries.adjustable]
sql = "{series}"
count = false
[sources.shop.queries.million]
sql = "{million}"
count = false
[sources.shop.queries.endless]
sql = "{endless}"
count = false
[sources.shop.queries.brooding]
sql = "{brooding}"
count = false

[sources.hasty]
url = "{url}"
timeout = "300ms"
[sources.hasty.queries.brooding]
sql = "{brooding}"

[sources.down]
url = "{down}"
[sources.down.queries.one]
sql = "SELECT 1 AS one"
"""
NUMBERS = ("WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {last}) "
           "SELECT {what} FROM n")
LAST = "(SELECT rows FROM size)"
SQLITE = {
    "writing": "WITH more(id) AS (SELECT 9) INSERT INTO orders (id) SELECT id FROM more",
    "series": NUMBERS.format(last=LAST, what="i, 'row ' || i AS name"),
    "endless": NUMBERS.format(last=10**15, what="i, 'row ' || i AS name"),
    "million": NUMBERS.format(last=10**6, what="i, 'row ' || i AS name, '=' AS formula"),
    "brooding": NUMBERS.format(last=10**15, what="count(*)")}
POSTGRES = {
    "writing": "SELECT nextval('numbers')",
    "series": SQLITE["series"], "endless": SQLITE["endless"], "million": SQLITE["million"],
    "brooding": "SELECT pg_sleep(3600)"}
TABLES = ("CREATE TABLE orders (id INTEGER, customer TEXT, placed {instant})", "CREATE TABLE size (rows BIGINT)",
          "INSERT INTO size VALUES (1000)",
          "INSERT INTO orders VALUES (1, 'Ada', '2026-01-01 10:00:00'), (2, '=Bob', '2026-02-01 10:00:00')",
          "INSERT INTO orders VALUES (3, NULL, NULL)")


class Desk:
    """Exports by way of a real worker."""

    def __init__(self, house, dialect, shop):
        self.house, self.dialect, self._shop = house, dialect, shop
        self.house.start("dispatcher")
        self.worker = self.house.start("worker")

    def sql(self, statement):
        """Run a statement in the shop's database; its rows."""
        with closing(self._shop()) as connection:
            rows = connection.execute(statement)
            rows = rows.fetchall() if rows.description else []
            connection.commit()
        return rows

    def ask(self, query, source="shop", format="csv", max_attempts=1, **params):
        """Submit; the job's id."""
        return self.house.submit("report.export", max_attempts=max_attempts, source=source, query=query, format=format,
                                 params=params)

    def export(self, query, **given):
        """The finished job."""
        return self.house.finished(self.ask(query, **given), 60)

    def file(self, job):
        """The bytes that the job left."""
        [row] = self.artifacts(job.id)
        return open_store(self.house.settings).open(row.key).read()

    def rows(self, query, **given):
        """What a query gives, as a succeeded job wrote it to JSON Lines."""
        job = self.export(query, format="jsonl", **given)
        assert job.status == "succeeded", job.error
        return [json.loads(line) for line in self.file(job).splitlines()]

    def problem(self, job):
        """(slug, detail) of a failed job."""
        error = json.loads(job.error)
        return error["type"].rpartition("/")[2], error["detail"]

    def artifacts(self, id):
        return self.house.db.read().all("SELECT * FROM artifacts WHERE job_id = :id AND state = 'whole'", id=id)

    def folders(self, id):
        """The temporary folders of a job's attempts."""
        return list((self.house.settings.data_dir / "work").glob(f"{id}-*"))

    def writing(self, id):
        """Wait until the running job has written something."""
        self.house.running(id)

        def begun():
            return [file for folder in self.folders(id) for file in folder.rglob("*.csv") if file.stat().st_size]

        return wait_for(begun, 60, "the first rows")

    @property
    def horse(self):
        """The pid of the process that exports."""
        [pid] = self.house.horses(self.worker.pid)
        return pid

    def kill_worker(self):
        """Kill the worker with its horse, and start another."""
        for pid in (*self.house.horses(self.worker.pid), self.worker.pid):
            os.kill(pid, signal.SIGKILL)
        self.worker.wait()
        self.worker = self.house.start("worker")


def _house(folder, timing={}, **given):
    (folder / "sources.toml").write_text(FILE.format(**given), "utf-8")
    return House(folder, data_sources=folder / "sources.toml", grace="10m", **{"lease": "60"} | timing)


@contextmanager
def sqlite_desk(folder, **timing):
    """A desk whose shop is a SQLite file."""
    file = folder / "shop.db"
    with _house(folder, timing, url=f"sqlite:///{file}", down=f"sqlite:///{folder}/missing.db", **SQLITE) as house:
        desk = Desk(house, "sqlite", lambda: sqlite3.connect(file, timeout=60))
        for statement in TABLES:
            desk.sql(statement.format(instant="TEXT"))
        yield desk


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def desk(request, tmp_path_factory):
    """A desk that tests share and leave as it is."""
    folder = tmp_path_factory.mktemp("desk")
    if request.param == "sqlite":
        with sqlite_desk(folder) as desk:
            yield desk
        return
    import psycopg
    name, server = f"shop_{os.urandom(4).hex()}", request.getfixturevalue("postgres_server")
    plain, url = server.replace("+psycopg", ""), server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(plain, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    try:
        with _house(folder, url=url, down="postgresql://reader:hunter2%40home@127.0.0.1:1/shop", **POSTGRES) as house:
            desk = Desk(house, "postgresql", lambda: psycopg.connect(url.replace("+psycopg", "")))
            for statement in (*TABLES, "CREATE SEQUENCE numbers"):
                desk.sql(statement.format(instant="TIMESTAMPTZ"))
            yield desk
    finally:
        with psycopg.connect(plain, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
