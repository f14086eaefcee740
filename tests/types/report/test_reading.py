"""Exports from real databases, each test on SQLite and on PostgreSQL."""

import json
import re
from pathlib import Path

import pytest

from tests.types.report.conftest import sqlite_desk
from tests.work.house import wait_for

HOSTILE = ["'; DROP TABLE orders; --", "' OR '1'='1", ":least", "%s %(x)s {0}", "\\", "x'); DELETE FROM orders;--", "世界"]


def test_rows_come_in_their_order_with_their_result(desk):
    job = desk.export("orders", least=2)
    assert job.status == "succeeded", job.error
    assert desk.file(job).decode("utf-8-sig") == "id,customer\r\n2,'=Bob\r\n3,\r\n"
    result = json.loads(job.result)
    [artifact] = desk.artifacts(job.id)
    assert result == {"source": "shop", "query": "orders", "format": "csv", "rows": 2, "sheets": None, "warnings": [],
                      "artifact": f"/v1/artifacts/{artifact.id}", "download_url": artifact.link,
                      "expires_at": artifact.link_expires_at}
    assert (artifact.name, artifact.media_type) == ("shop-orders.csv", "text/csv")
    assert job.progress == 100


@pytest.mark.parametrize("text", HOSTILE)
def test_a_parameter_is_a_value_and_nothing_else(desk, text):
    [row] = desk.rows("echo", text=text, whole=2**53 + 1, real=0.5, yes=True, day="2026-03-01")
    assert row == {"text": text, "whole": 2**53 + 1, "real": 0.5, "yes": 1 if desk.dialect == "sqlite" else True,
                   "day": "2026-03-01"}
    assert desk.rows("orders", customer=text) == []
    assert desk.sql("SELECT count(*) FROM orders") == [(3,)]


def test_instants_are_compared_in_utc(desk):
    assert desk.rows("at", since="2026-02-01T10:00:00Z") == [{"id": 2}]
    assert desk.rows("at", since="2026-02-01T10:00:00-01:00") == []


def test_columns_of_one_name_are_told_apart(desk):
    assert desk.rows("twins")[0] == {"id": 1, "id_2": 1, "id_3": "Ada"}


def test_a_query_that_writes_fails_and_has_written_nothing(desk):
    look = "SELECT count(*) FROM orders" if desk.dialect == "sqlite" else "SELECT last_value, is_called FROM numbers"
    before = desk.sql(look)
    job = desk.export("writing")
    slug, detail = desk.problem(job)
    assert (job.status, slug) == ("failed", "report-query-failed")
    assert {"sqlite": "attempt to write a readonly database", "postgresql": "read-only transaction"}[desk.dialect] in detail
    assert desk.sql(look) == before


def test_a_query_that_the_database_refuses_says_why(desk):
    job = desk.export("broken", max_attempts=3)
    slug, detail = desk.problem(job)
    assert (slug, job.attempt) == ("report-query-failed", 1) and "nowhere" in detail


def test_a_query_that_takes_too_long_is_stopped(desk):
    job = desk.export("brooding", source="hasty", max_attempts=3)
    assert (desk.problem(job), job.attempt) == (
        ("report-query-slow", "The source hasty took longer than 0.3 s for a step of brooding."), 1)


def test_a_source_that_is_down_is_asked_again_later(desk):
    job = desk.ask("one", source="down", max_attempts=2)
    wait_for(lambda: desk.house.job(job).next_attempt_at or desk.house.job(job).attempt == 2, 60, "another attempt")
    slug, detail = desk.problem(desk.house.finished(job, 60))
    assert slug == "source-unavailable" and detail.startswith("The source down does not answer: ")
    everything = desk.house.text() + json.dumps([dict(row) for row in desk.house.attempts(job)]) + detail
    assert "hunter2" not in everything


def test_cancelling_in_the_middle_leaves_nothing(desk):
    horse = desk.horse
    job = desk.ask("endless")
    desk.writing(job)
    desk.house.cancel(job)
    assert desk.house.finished(job, 60).status == "cancelled"
    assert desk.artifacts(job) == []
    wait_for(lambda: not desk.folders(job), 60, "the temporary folder to be gone")
    assert desk.rows("orders", least=3) == [{"id": 3, "customer": None}]
    assert desk.horse == horse, desk.house.text()


def test_cancelling_stops_a_query_that_has_given_no_row_yet(desk):
    horse = desk.horse
    job = desk.ask("brooding")
    wait_for(lambda: desk.house.job(job).stage == "asking the source", 60, "the query")
    desk.house.cancel(job)
    assert desk.house.finished(job, 60).status == "cancelled"
    if desk.dialect == "postgresql":
        sleeping = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        wait_for(lambda: not desk.sql(sleeping), 60, "the server to have stopped, too")
    assert desk.rows("orders", least=3) == [{"id": 3, "customer": None}]
    assert desk.horse == horse, desk.house.text()


def test_a_million_rows_take_no_more_memory_than_a_few(desk):
    horse = desk.horse
    desk.export("orders")
    Path(f"/proc/{horse}/clear_refs").write_text("5")     # the peak is counted anew from here
    job = desk.house.finished(desk.ask("million"), 120)
    assert job.status == "succeeded" and json.loads(job.result)["rows"] == 1_000_000
    assert desk.horse == horse
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{horse}/status").read_text())[1])
    assert peak < 120_000, f"{peak} kB"
    lines = desk.file(job).decode("utf-8-sig").splitlines()
    assert (len(lines), lines[-1]) == (1_000_001, "1000000,row 1000000,'=")


def test_a_killed_worker_leaves_nothing_and_the_next_attempt_succeeds(tmp_path):
    with sqlite_desk(tmp_path, lease="2") as desk:
        desk.sql(f"UPDATE size SET rows = {10**15}")
        job = desk.ask("adjustable", max_attempts=10)
        desk.writing(job)
        assert desk.artifacts(job) == []
        desk.kill_worker()
        desk.sql("UPDATE size SET rows = 1000")
        row = desk.house.finished(job, 60)
        assert row.status == "succeeded" and row.attempt >= 2 and json.loads(row.result)["rows"] == 1000, row.error
        assert desk.file(row).decode("utf-8-sig").splitlines()[1000] == "1000,row 1000"
        wait_for(lambda: not desk.folders(job), 60, "the temporary folders to be gone")


@pytest.mark.extra("parquet", "pyarrow")
@pytest.mark.parametrize("format", ["xlsx", "parquet"])
def test_the_other_formats_leave_the_process_as_it_was(desk, format):
    horse = desk.horse
    job = desk.export("orders", format=format)
    assert job.status == "succeeded" and desk.file(job)[:4] == {"xlsx": b"PK\3\4", "parquet": b"PAR1"}[format]
    assert json.loads(job.result)["sheets"] == ([{"name": "orders 1", "rows": 3}] if format == "xlsx" else None)
    desk.export("orders")
    assert desk.horse == horse, desk.house.text()
