"""Reports through the whole running server, which lacks the extra for Parquet: who may what, and what is refused."""

import csv
import io
import os
import sqlite3

import pytest
import requests

from jobs import clock
from tests.stack import Stack

FILE = """
[sources.bookshop]
url = "sqlite:///{folder}/bookshop.db"
[sources.bookshop.queries.books]
sql = "SELECT id, title FROM books WHERE id >= :least ORDER BY id"
params.least = {{ type = "integer", default = 1 }}

[sources.payroll]
url = "sqlite:///{folder}/bookshop.db"
owners = ["alice"]
[sources.payroll.queries.salaries]
sql = "SELECT id FROM books"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with two sources, on a Python without pyarrow."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "sources.toml").write_text(FILE.format(folder=folder), "utf-8")
    (folder / "lacking").mkdir()
    (folder / "lacking" / "sitecustomize.py").write_text('import sys\nsys.modules["pyarrow"] = None\n')
    with sqlite3.connect(folder / "bookshop.db") as bookshop:
        bookshop.execute("CREATE TABLE books (id INTEGER, title TEXT)")
        bookshop.executemany("INSERT INTO books VALUES (?, ?)", [(1, "Faust"), (2, "=1+1"), (3, "红楼梦")])
    bookshop.close()
    with pytest.MonkeyPatch.context() as outside:
        outside.setenv("PYTHONPATH", str(folder / "lacking"), prepend=os.pathsep)
        with Stack(folder, data_sources=folder / "sources.toml", lease="60", grace="60") as stack:
            yield stack


@pytest.fixture(scope="module")
def alice(server):
    return server.session("alice")


@pytest.fixture(scope="module")
def bob(server):
    return server.session("bob")


def export(client, query="all", source="jobs", params=None, **more) -> dict:
    """The finished job, submitted by its collection."""
    answer = client.post("/v1/reports", json={"source": source, "query": query, "params": params or {}} | more)
    assert answer.status_code == 202, answer.text
    job = client.finished(answer.json()["job"].rpartition("/")[2], 60)
    assert job["status"] == "succeeded", job
    return job


def rows(job) -> list[dict]:
    """The lines of the CSV file, fetched by its signed link, without a key."""
    answer = requests.get(job["result"]["download_url"], timeout=60)
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


def owners(job) -> set[str]:
    return {row["owner"] for row in rows(job)}


def refused(client, **payload) -> list[dict]:
    answer = client.post("/v1/reports", json=payload)
    assert answer.status_code == 422, answer.text
    return answer.json()["errors"]


def test_a_report_from_the_request_to_the_file(alice):
    job = export(alice, "books", "bookshop", {"least": 2})
    assert rows(job) == [{"id": "2", "title": "'=1+1"}, {"id": "3", "title": "红楼梦"}]
    result, resource = job["result"], alice.get(job["resource"]).json()
    assert resource["status"] == "ready"
    assert {name: resource[name] for name in result} == result and result["rows"] == 2
    [artifact] = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    assert (artifact["link"], artifact["linkExpiresAt"]) == (result["download_url"], result["expires_at"])
    assert result["artifact"] == f"/v1/artifacts/{artifact['id']}"


def test_an_owner_exports_own_jobs_and_an_admin_all(server, alice, bob):
    for client in (alice, bob):
        client.finished(client.submit("demo.drill", seconds=0)["id"])
    assert owners(export(alice)) == {"alice"} and owners(export(alice, params={"owner": "alice"})) == {"alice"}
    everybodys = export(server.admin)
    assert {"alice", "bob"} <= owners(everybodys)
    assert everybodys["payload"]["params"] == {"owner": "*"}, "what was decided stands in the job"
    assert owners(export(server.admin, params={"owner": "bob"})) == {"bob"}
    for owner in ("bob", "*"):
        assert refused(alice, source="jobs", query="all", params={"owner": owner}) == [
            {"pointer": "#/params/owner", "detail": "Only an admin may export the jobs of others."}]


def test_another_key_of_an_admin_does_not_see_more_than_its_role(server):
    script = server.session("admin", role="submit")
    assert owners(export(script)) <= {"admin"}
    job = server.admin.submit("report.export", {"notBefore": clock.after(86400)}, source="jobs", query="all")
    server.admin.delete(f"/v1/jobs/{job['id']}")
    again = script.post(f"/v1/jobs/{job['id']}:retry")
    assert again.status_code == 422 and again.json()["errors"][0]["pointer"] == "#/payload/params/owner"


def test_a_retry_by_an_admin_shows_an_owner_no_more_than_before(server, alice):
    job = alice.submit("report.export", {"notBefore": clock.after(86400)}, source="jobs", query="all")
    alice.delete(f"/v1/jobs/{job['id']}")
    again = server.admin.post(f"/v1/jobs/{job['id']}:retry").json()
    again = server.admin.finished(again["id"], 60)
    assert (again["owner"], owners(again)) == ("alice", {"alice"})


def test_the_jobs_of_the_server_by_their_kind(server, alice):
    carol = server.session("carol")
    for payload in ({"fail": "as asked"}, {"value": 1}, {"value": 2}):
        last = carol.finished(carol.submit("demo.drill", {"tags": ["=nightly"]}, seconds=0, **payload)["id"])
    first, *_ = rows(export(carol, "failed"))
    assert (first["problem"], first["detail"], first["type"]) == ("drill-failed", "as asked", "demo.drill")
    found = {row["type"]: row for row in rows(export(carol, "by-type"))}
    assert {name: found["demo.drill"][name] for name in ("jobs", "succeeded", "failed", "queued")} == {
        "jobs": "3", "succeeded": "2", "failed": "1", "queued": "0"}
    drills = rows(export(carol, params={"type": "demo.drill", "status": "succeeded"}))
    assert [row["tags"] for row in drills] == ['["=nightly"]'] * 2 and drills[1]["id"] == last["id"]
    assert drills[1]["finished_at"].startswith(last["finishedAt"].rstrip("Z"))
    assert rows(export(carol, params={"type": "demo.drill", "since": last["createdAt"]})) == [drills[1]]
    assert len(rows(export(carol, params={"type": "demo.drill", "until": last["createdAt"]}))) == 2


@pytest.mark.parametrize(("payload", "pointer", "words"), [
    ({"query": "all"}, "#/source", "Missing"),
    ({"source": "shop", "query": "all"}, "#/source", "There is no such source. There are: jobs, bookshop."),
    ({"source": "jobs", "query": "none"}, "#/query", "jobs has no such query. It has: all, failed, by-type."),
    ({"source": "jobs", "query": "all", "params": {"since": "yesterday"}}, "#/params/since", "RFC 3339"),
    ({"source": "jobs", "query": "all", "params": {"status": "done"}}, "#/params/status", "Must be one of"),
    ({"source": "jobs", "query": "all", "params": {"page": 1}}, "#/params/page",
     "Unknown. all takes since (datetime, optional), until (datetime, optional)"),
    ({"source": "bookshop", "query": "books", "params": {"least": "1 OR 1=1"}}, "#/params/least", "integer"),
    ({"source": "bookshop", "query": "books", "params": {"least": 2**63}}, "#/params/least", "9223372036854775807"),
    ({"source": "jobs", "query": "all", "params": []}, "#/params", "mapping"),
    ({"source": "jobs", "query": "all", "format": "ods"}, "#/format", "Must be one of"),
    ({"source": "jobs", "query": "all", "format": "parquet"}, "#/format",
     "This format needs pyarrow, which this server does not have. ./run install parquet brings it."),
])
def test_what_cannot_be_is_refused_at_once_with_a_pointer(bob, payload, pointer, words):
    [fault] = refused(bob, **payload)
    assert fault["pointer"] == pointer and words in fault["detail"]


def test_a_source_for_some_does_not_exist_for_others(server, alice, bob):
    assert refused(bob, source="payroll", query="salaries") == [
        {"pointer": "#/source", "detail": "There is no such source. There are: jobs, bookshop."}]
    assert refused(bob, source="payroll", query="guess")[0]["pointer"] == "#/source"
    assert "payroll" not in requests.get(f"{server.url}/openapi.json", timeout=60).text
    assert len(rows(export(alice, "salaries", "payroll"))) == 3
    assert len(rows(export(server.admin, "salaries", "payroll"))) == 3


def test_the_form_offers_what_there_is(alice):
    types = {entry["name"]: entry for entry in alice.get("/v1/job-types").json()["jobTypes"]}
    payload = types["report.export"]["payload"]["properties"]
    assert payload["source"]["enum"] == ["jobs", "bookshop"]
    assert payload["query"]["description"].endswith("jobs: all, failed, by-type; bookshop: books.")
    assert payload["format"]["enum"] == ["csv", "xlsx", "parquet", "jsonl"] and payload["format"]["default"] == "csv"


def test_a_file_with_a_fault_stops_the_start(tmp_path):
    text = '[sources.shop]\nurl = "sqlite:////srv/a.db"\nqueries.a.sql = "DROP TABLE a"\n'
    (tmp_path / "sources.toml").write_text(text)
    stack = Stack(tmp_path, data_sources=tmp_path / "sources.toml")
    assert stack.command("start").wait(60) == 3
    assert stack.output().strip() == (f"ACCEPTED_DATA_SOURCES: {tmp_path / 'sources.toml'}: source 'shop', query 'a': "
                                      "sql must begin with SELECT, WITH, VALUES or TABLE; a report only reads.")
