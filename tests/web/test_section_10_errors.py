"""Section 10 of docs/http.md: errors."""

import ast
import re
import socket

import pytest
import requests

from jobs.errors import KINDS
from tests.stack import wait_for
from tests.web.making import database, end, in_state
from tests.web.rules import ROOT, row, rule

JSON = {"Content-Type": "application/json"}


def slug(answer) -> str:
    return answer.json()["type"].rpartition("/")[2]


ERRORS = [row("10.1", method, path, options, status, id=f"{status} {method} {path[:30]}") for method, path, options, status in (
    ("GET", "/v1/jobs?x=1", {}, 400), ("POST", "/v1/jobs", {"data": "{", "headers": JSON}, 400),
    ("POST", "/v1/jobs", {"headers": JSON}, 400), ("POST", "/v1/jobs:cancel", {"json": {}}, 400),
    ("GET", "/v1/jobs?cursor=x", {}, 400),
    ("POST", "/v1/jobs", {"json": {"type": "demo.drill"}, "headers": {"Idempotency-Key": "a b"}}, 400),
    ("GET", "/v1/jobs", {"headers": {"Authorization": "Bearer x"}}, 401), ("GET", "/v1/keys", {}, 403), ("GET", "/v1/jobs/1x", {}, 404),
    ("GET", "/v1/no/such/thing", {}, 404), ("PUT", "/v1/jobs", {}, 405), ("GET", "/v1/jobs", {"headers": {"Accept": "text/html"}}, 406),
    ("POST", "/v1/jobs", {"data": "x", "headers": {"Content-Type": "text/plain"}}, 415), ("POST", "/v1/jobs", {"json": {}}, 422))]


@pytest.mark.parametrize(("method", "path", "options", "status"), ERRORS)
def test_every_error_is_a_problem_document(alice, house, method, path, options, status):
    answer = alice.request(method, path, **options)
    assert answer.status_code == status and answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    kind = KINDS[slug(answer)]
    assert problem["type"] == f"{house.url}/problems/{kind.slug}" and problem["status"] == status
    assert problem["title"] == kind.title and "Traceback" not in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    if status != 404:
        assert problem.get("detail") or problem["errors"], "what to do about it"
        assert problem["instance"] == path.partition("?")[0] and problem["requestId"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize("accept", [row("10.1", None), row("10.1", "application/json"), row("10.1", "*/*")])
def test_the_media_type_of_a_problem_does_not_depend_on_accept(alice, accept):
    answer = alice.get("/v1/jobs/888888888", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")


def raised() -> set[str]:
    """Every slug that the code names: `Problem("…")`, `_problem("…")`, and the table of statuses."""
    found = set()
    for path in [*(ROOT / "jobs").rglob("*.py"), ROOT / "app.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Problem", "_problem"):
                first = node.args[0] if node.args else None
                values = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                found |= {value.value for value in values if isinstance(value, ast.Constant)}
    from jobs.web import problems
    return found | set(problems._BY_STATUS.values())


@rule("10.2")
def test_every_slug_that_the_code_can_raise_is_registered(house):
    assert raised() - set(KINDS) == set() and len(raised()) > 30
    listing = requests.get(f"{house.url}/problems/", timeout=60)
    assert listing.headers["Content-Type"].startswith("text/html")
    for kind in KINDS.values():
        page = requests.get(f"{house.url}/problems/{kind.slug}", timeout=60)
        assert page.status_code == 200 and page.headers["Content-Type"].startswith("text/html") and f"/problems/{kind.slug}" in listing.text
    assert requests.get(f"{house.url}/problems/no-such", timeout=60).status_code == 404


@rule("10.2")
def test_the_docs_name_registered_slugs_only():
    text = (ROOT / "docs" / "http.md").read_text()
    named = set(re.findall(r"(?:4\d\d|5\d\d|with|failed) \(?`([a-z]+(?:-[a-z]+)+)`", text))
    assert {"malformed-json", "illegal-transition", "never-started"} <= named <= set(KINDS)


@pytest.mark.parametrize(("method", "path", "allow"), [
    row("10.3", "GET", "/v1/jobs/1:cancel", {"POST", "OPTIONS"}), row("10.3", "PUT", "/v1/jobs/1", {"GET", "HEAD", "DELETE", "OPTIONS"}),
    row("10.3", "DELETE", "/v1/jobs", {"GET", "HEAD", "POST", "OPTIONS"}), row("10.3", "POST", "/v1/jobs/1/result", {"GET", "HEAD", "OPTIONS"}),
    row("10.3", "GET", "/v1/jobs:purge", {"POST", "OPTIONS"}), row("10.3", "PATCH", "/v1/events", {"GET", "HEAD", "OPTIONS"})])
def test_405_and_options_have_allow(alice, house, method, path, allow):
    answer = alice.request(method, path)
    assert (answer.status_code, slug(answer)) == (405, "method-not-allowed")
    assert set(answer.headers["Allow"].split(", ")) == allow
    options = requests.options(house.url + path, timeout=60)
    assert options.status_code == 200 and set(options.headers["Allow"].split(", ")) == allow


@pytest.mark.parametrize(("path", "accept", "offered"), [
    row("10.3", "/v1/jobs", "text/html", "application/json"), row("10.3", "/v1/jobs/{}", "application/json;q=0", "application/json"),
    row("10.3", "/v1/jobs/{}/events", "application/json", "text/event-stream"), row("10.3", "/v1/events", "text/html", "text/event-stream"),
    row("10.3", "/v1/jobs/{}/logs", "text/html", "application/json, text/plain, text/event-stream")])
def test_406_tells_what_there_is(alice, path, accept, offered):
    job = in_state(alice, "queued")
    answer = alice.get(path.format(job["id"]), headers={"Accept": accept})
    assert (answer.status_code, slug(answer), answer.headers["Accept"]) == (406, "not-acceptable", offered)
    assert alice.get(f"/v1/jobs/{job['id']}", headers={"Accept": "text/html, application/*;q=0.1"}).status_code == 200
    end(alice, job)


@rule("10.3")
def test_415_tells_what_is_taken(alice):
    for path in ("/v1/jobs", "/v1/notes", "/v1/jobs:cancel"):
        answer = alice.post(path, data="<x/>", headers={"Content-Type": "application/xml"})
        assert (answer.status_code, answer.headers["Accept"]) == (415, "application/json")
    assert alice.post("/v1/jobs", data='{"type": "test.parked"}', headers={"Content-Type": "application/merge-patch+json"}).status_code == 202


@rule("10.4", "10.1")
def test_an_unexpected_fault_is_found_in_the_log(house, alice):
    job = in_state(alice, "failed")
    with database(house) as opened:     # what should never be in a row
        opened.write(lambda tx: tx.run("UPDATE jobs SET priority = 77 WHERE id = :id", id=int(job["id"])))
    answer = alice.get(f"/v1/jobs/{job['id']}", headers={"X-Request-Id": "look-for-me-77"})
    problem = answer.json()
    assert (answer.status_code, slug(answer), problem["requestId"]) == (500, "internal-error", "look-for-me-77")
    assert "Traceback" not in answer.text and "IndexError" not in answer.text
    wait_for(lambda: re.search(r"look-for-me-77[\s\S]*Traceback[\s\S]*IndexError", house.output()))
    with database(house) as opened:
        opened.write(lambda tx: tx.run("UPDATE jobs SET priority = 1 WHERE id = :id", id=int(job["id"])))


@pytest.mark.parametrize(("given", "echoed"), [
    row("10.5", "a-B_1.2:3/4+5=6", True), row("10.5", "x" * 128, True), row("10.5", "x" * 129, False), row("10.5", "a b", False),
    row("10.5", "<script>", False), row("10.5", None, False)])
def test_request_ids(alice, given, echoed):
    answers = [alice.get("/v1/jobs?limit=1", headers={"X-Request-Id": given}) for _ in range(2)]
    ids = [answer.headers["X-Request-Id"] for answer in answers]
    if echoed:
        assert ids == [given, given]
    else:
        assert len(set(ids)) == 2 and all(re.fullmatch(r"[0-9a-f]{32}", each) for each in ids)


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(("given", "handed"), [
    row("10.6", TRACE, True), row("10.6", TRACE.upper(), False), row("10.6", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", False),
    row("10.6", "ff" + TRACE[2:], False), row("10.6", "nonsense", False), row("10.6", None, False)])
def test_the_trace_reaches_the_work(alice, given, handed):
    answer = alice.post("/v1/jobs?wait=20", json={"type": "test.trace"}, headers={"traceparent": given})
    assert answer.status_code == 200
    found = answer.json()["traceparent"]
    assert (found == given) if handed else (found is None or (found != given and re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-\d\d", found)))


@rule("10.1")
def test_an_overlong_or_broken_request_does_no_harm(house, alice):
    for text in ("GET /" + "x" * 9000 + " HTTP/1.1\r\n\r\n", "NONSENSE\r\n\r\n", "GET / HTTP/1.1\r\nBad Header: x\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", int(house.settings["port"])), timeout=60) as client:
            client.sendall(text.encode())
            assert client.recv(65536).startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert alice.get("/livez").status_code == 200
