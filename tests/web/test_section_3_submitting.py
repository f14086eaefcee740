"""Section 3 of docs/http.md: submitting."""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import requests

from jobs import settings
from tests.stack import wait_for
from tests.web.making import end, in_state
from tests.web.rules import row, rule

JSON = {"Content-Type": "application/json"}
DRILL = {"type": "demo.drill", "payload": {"seconds": 0}}


def slug(answer) -> str:
    return answer.json()["type"].rpartition("/")[2]


def newest(api) -> list:
    return api.get("/v1/jobs?limit=1").json()["jobs"]


# What is taken


@rule("3.1", "3.6", "3.7")
def test_a_202_by_type(alice, house):
    answer = alice.post("/v1/jobs", json={"type": "test.parked"})
    id, url = answer.json()["id"], house.url
    assert answer.status_code == 202
    headers = {name: answer.headers[name] for name in (
        "Location", "Operation-Location", "Content-Location", "Retry-After", "Link", "Cache-Control", "Content-Type")}
    assert headers == {
        "Location": f"{url}/v1/jobs/{id}", "Operation-Location": f"{url}/api/operations/{id}",
        "Content-Location": f"{url}/v1/jobs/{id}", "Retry-After": headers["Retry-After"], "Cache-Control": "no-store",
        "Link": f'<{url}/v1/jobs/{id}>; rel="monitor", <{url}/v1/jobs/{id}/events>; rel="monitor"; type="text/event-stream"',
        "Content-Type": "application/json"}
    assert headers["Retry-After"].isdigit() and "ETag" not in answer.headers
    assert alice.get(answer.headers["Content-Location"]).content == answer.content
    end(alice, answer.json())


@rule("3.1", "3.6", "3.7")
def test_a_202_by_collection(alice, house):
    answer = alice.post("/v1/notes", json={"text": "hi", "fate": "hold", "tags": ["t"], "priority": "low"})
    resource, job = answer.json(), alice.get(answer.headers["Location"]).json()
    assert answer.status_code == 202
    assert answer.headers["Content-Location"] == f"{house.url}/v1/notes/{resource['id']}"
    assert (resource["status"], resource["job"], resource["text"]) == ("processing", f"/v1/jobs/{job['id']}", "hi")
    assert alice.get(answer.headers["Content-Location"]).content == answer.content
    assert (job["type"], job["payload"], job["tags"], job["priority"]) == ("test.note", {"text": "hi", "fate": "hold"}, ["t"], "low")
    assert job["resource"] == f"/v1/notes/{resource['id']}"
    end(alice, job)
    assert alice.finished(job["id"])["status"] == "cancelled"
    by_type = alice.submit("test.note", text="too")
    assert by_type["resource"].startswith("/v1/notes/")
    alice.finished(by_type["id"])
    assert alice.get(by_type["resource"]).json()["status"] == "ready"


@rule("3.2")
def test_options_are_heeded(alice):
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    options = {"priority": "high", "callbackUrl": "http://127.0.0.1:9/x", "notBefore": later, "maxAttempts": 7, "timeout": 60,
               "queueTtl": 86400, "tags": ["a", "b"]}
    job = alice.submit("demo.drill", options, seconds=0)
    assert {name: job[name] for name in ("priority", "callbackUrl", "maxAttempts", "timeout", "tags")} == {
        name: options[name] for name in ("priority", "callbackUrl", "maxAttempts", "timeout", "tags")}
    assert datetime.fromisoformat(job["notBefore"]) - datetime.fromisoformat(later) < timedelta(milliseconds=1)
    end(alice, job)


@rule("3.2")
def test_not_before_holds_the_start(alice):
    when = datetime.now(UTC) + timedelta(seconds=1.5)
    job = alice.submit("demo.drill", {"notBefore": when.isoformat()}, seconds=0)
    done = alice.finished(job["id"])
    assert done["status"] == "succeeded" and datetime.fromisoformat(done["startedAt"]) >= when - timedelta(milliseconds=1)


# What is refused; nothing is left behind


@pytest.mark.parametrize(("path", "body", "pointers"), [
    row("3.3", "/v1/jobs", {"type": "demo.drill", "priority": "urgent", "timeout": True, "tags": [""], "foo/bar~": 1,
                            "payload": {"seconds": "soon", "bar": 1, "partial": ["a", 5]}},
        {"#/priority", "#/timeout", "#/tags/0", "#/foo~1bar~0", "#/payload/seconds", "#/payload/bar", "#/payload/partial/1"}),
    row("3.3", "/v1/notes", {"queueTtl": 0, "fate": "unknown", "notBefore": "tomorrow"},
        {"#/queueTtl", "#/fate", "#/text", "#/notBefore"}),
    row("3.3", "/v1/jobs", {"type": "test.secret", "payload": {"token": "x", "logins": [{"user": "a"}, {"user": 1, "password": "p"}]}},
        {"#/payload/logins/0/password", "#/payload/logins/1/user"}),
    row("3.3 3.4", "/v1/jobs", {"payload": {}}, {"#/type"}), row("3.3", "/v1/jobs", {"type": 5}, {"#/type"}),
    row("3.3", "/v1/jobs", {"type": "demo.drill", "payload": []}, {"#/payload"}),
    row("3.3", "/v1/jobs", {"type": "demo.drill", "payload": None}, {"#/payload"}),
    row("3.3", "/v1/jobs", {"type": "demo.drill", "payload": {"seconds": 1e308}, "maxAttempts": 2**70},
        {"#/payload/seconds", "#/maxAttempts"}),
    row("3.3", "/v1/jobs", [], {"#"}), row("3.3", "/v1/jobs", "text", {"#"})])
def test_every_fault_is_named_at_once(alice, path, body, pointers):
    before = newest(alice)
    answer = alice.post(path, json=body)
    assert (answer.status_code, slug(answer)) == (422, "invalid-payload")
    faults = answer.json()["errors"]
    assert {fault["pointer"] for fault in faults} == pointers and all(fault["detail"] for fault in faults)
    assert newest(alice) == before


UNREADABLE = "/v1/artifacts/999999/content"


@pytest.mark.parametrize(("body", "headers", "status", "kind"), [
    row("3.4", {"type": "no.such"}, {}, 422, "unknown-type"),
    row("3.4", DRILL, {"Content-Type": "text/plain"}, 415, "unsupported-media-type"),
    row("3.4", DRILL, {"Content-Type": None}, 415, "unsupported-media-type"),
    row("3.4", DRILL, {"Content-Type": "application/json; charset=latin-1"}, 415, "unsupported-media-type"),
    row("3.4", DRILL | {"callbackUrl": "http://10.0.0.1/"}, {}, 422, "target-forbidden"),
    row("3.4", DRILL | {"callbackUrl": "ftp://example.com/"}, {}, 422, "target-forbidden"),
    row("3.4", DRILL | {"callbackUrl": "http://user:pw@example.com/"}, {}, 422, "target-forbidden"),
    row("3.4", {"type": "test.reader", "payload": {"source": UNREADABLE}}, {}, 422, "unknown-input"),
    row("3.4", {"type": "test.reader", "payload": {"source": "http://169.254.169.254/x"}}, {}, 422, "target-forbidden")])
def test_what_can_be_judged_at_once_is_refused_at_once(alice, body, headers, status, kind):
    before = newest(alice)
    answer = alice.post("/v1/jobs", data=json.dumps(body), headers=JSON | headers)
    assert (answer.status_code, slug(answer)) == (status, kind)
    assert (answer.headers.get("Accept") == "application/json") is (status == 415)
    assert newest(alice) == before


@rule("3.4", "8.7")
def test_a_foreign_file_is_refused_like_an_unknown_one(alice, bob):
    upload = bob.post("/v1/files", data=b"bob's", headers={"Content-Type": "text/plain"}).json()
    answers = [alice.post("/v1/jobs", json={"type": "test.reader", "payload": {"source": url}}).json()
               for url in (upload["url"], UNREADABLE)]
    for answer in answers:
        del answer["requestId"]
    assert answers[0] == answers[1] and answers[0]["errors"][0]["pointer"] == "#/payload/source"


@rule("3.1", "8.7")
def test_an_unknown_collection_is_404(alice):
    assert slug(alice.post("/v1/nothings", json={})) == "not-found"


def answers(stack) -> bool:
    try:
        return "redis" in requests.get(f"{stack.url}/readyz", timeout=60).json()["degraded"]
    except (OSError, ValueError):
        return False


@rule("3.5")
def test_202_is_given_without_redis(stack):
    stack.settings["redis_url"] = "redis://127.0.0.1:1/0"
    stack.process = stack.command("start")
    try:
        wait_for(lambda: answers(stack))
        alice = stack.session("alice")
        job = alice.submit("demo.drill", seconds=0)
        assert alice.job(job["id"])["status"] == "queued"
        from tests.web.making import database
        with database(stack) as opened:
            assert opened.read().value("SELECT status FROM jobs WHERE id = :id", id=int(job["id"])) == "queued"
    finally:
        stack.stop()


# Addresses


def raw(house, source: str, headers: dict) -> str:
    """POST a job from this loopback address; the Location."""
    with socket.create_connection(("127.0.0.1", int(house.settings["port"])), source_address=(source, 0), timeout=60) as client:
        body = json.dumps({"type": "test.parked"})
        lines = ["POST /v1/jobs HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "Connection: close",
                 "Content-Type: application/json", f"Content-Length: {len(body)}", "", body]
        client.sendall("\r\n".join(lines).encode())
        answer = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    assert " 202 " in answer, answer
    return answer.partition("\r\nLocation: ")[2].partition("/v1/")[0]


FORWARDED = {"X-Forwarded-Host": "jobs.example", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/base"}


@pytest.mark.parametrize(("source", "headers", "location"), [
    row("3.8", "127.0.0.1", {"Host": "evil.example"}, None), row("3.8", "127.0.0.1", {"Host": "x"} | FORWARDED, None),
    row("3.8", "127.0.0.2", {"Host": "x"} | FORWARDED, "https://jobs.example/base"),
    *(row("3.8", "127.0.0.2", {"Host": "x"} | FORWARDED | {"X-Forwarded-Host": host}, None)
      for host in ("a@b/c", "[::1", "a b", 'a"b', "a>b", "a\\b", "")),
    *(row("3.8", "127.0.0.2", {"Host": "x"} | FORWARDED | {"X-Forwarded-Prefix": prefix}, None)
      for prefix in ("@evil.example", ".evil.example", "//evil.example", '/">', "/a b", "/a?b"))])
def test_addresses_are_not_forged(alice, house, source, headers, location):
    found = raw(house, source, headers | {"Authorization": f"Bearer {alice.key}"})
    assert found == (location or house.url)


@pytest.mark.parametrize(("given", "base"), [
    row("3.8", {"public_url": "https://jobs.example/base/"}, "https://jobs.example/base"),
    row("3.8", {"bind": "0.0.0.0"}, f"http://{socket.gethostname()}:8202"), row("3.8", {"bind": "::"}, f"http://{socket.gethostname()}:8202"),
    row("3.8", {"bind": "::1"}, "http://[::1]:8202"), row("3.8", {"bind": "10.1.2.3"}, "http://10.1.2.3:8202")])
def test_the_server_knows_its_address(given, base):
    assert settings.load({}, **given).base_url == base


# Idempotency-Key


def keyed(api, key, body=DRILL, path="/v1/jobs", **options):
    return api.post(path, json=body, headers={"Idempotency-Key": key}, **options)


@rule("3.9")
def test_a_replay_answers_the_job_as_it_is_now(alice):
    first = keyed(alice, "replay-1")
    assert first.status_code == 202 and "Idempotency-Replayed" not in first.headers
    done = alice.finished(first.json()["id"])
    again = alice.post("/v1/jobs", data='{"payload":{"seconds":0},\n  "type":"demo.drill"}',
                       headers=JSON | {"Idempotency-Key": '"replay-1"'})
    assert (again.status_code, again.json(), again.headers["Location"]) == (202, done, first.headers["Location"])
    assert again.headers["Idempotency-Replayed"] == "true" and again.headers["Retry-After"].isdigit()


@rule("3.9")
def test_a_key_belongs_to_owner_and_path(alice, bob, house):
    body = {"text": "x"}
    made = [keyed(alice, "shared", {"type": "test.note", "payload": body}), keyed(alice, "shared", body, "/v1/notes"),
            keyed(bob, "shared", body, "/v1/notes")]
    assert len({answer.headers["Location"] for answer in made}) == 3
    again = keyed(house.session("alice"), "shared", body, "/v1/notes")      # another key of hers
    assert again.headers["Location"] == made[1].headers["Location"] and again.json()["text"] == "x"


@rule("3.9", "3.4")
def test_a_replay_is_not_judged_anew(alice):
    upload = alice.post("/v1/files", data=b"text", headers={"Content-Type": "text/plain"}).json()
    body = {"type": "test.reader", "payload": {"source": upload["url"]}, "maxAttempts": 1}
    first = keyed(alice, "replay-judged", body)
    alice.finished(first.json()["id"])
    assert alice.delete(f"/v1/artifacts/{upload['id']}").status_code == 204
    assert alice.post("/v1/jobs", json=body).status_code == 422
    assert keyed(alice, "replay-judged", body).headers["Location"] == first.headers["Location"]


@rule("3.10")
def test_another_body_is_422(alice):
    first = keyed(alice, "reused")
    answer = keyed(alice, "reused", {"type": "demo.drill", "payload": {"seconds": 0, "steps": 1}})
    assert (answer.status_code, slug(answer)) == (422, "idempotency-key-reused")
    assert newest(alice)[0]["id"] == first.json()["id"]


@pytest.mark.parametrize("key", [row("3.10", key) for key in ("", '""', '"a', "a b", "ä", "x" * 256, "a,b", '"a\\"b"', "a;p=1")])
def test_a_malformed_key_is_400(alice, key):
    answer = keyed(alice, key.encode())
    assert (answer.status_code, slug(answer)) == (400, "idempotency-key-malformed")


@rule("3.10")
def test_two_keys_are_400(house, alice):
    with socket.create_connection(("127.0.0.1", int(house.settings["port"])), timeout=60) as client:
        body = json.dumps(DRILL)
        client.sendall("\r\n".join([
            "POST /v1/jobs HTTP/1.1", "Host: x", f"Authorization: Bearer {alice.key}", "Connection: close", *(["Idempotency-Key: a"] * 2),
            "Content-Type: application/json", f"Content-Length: {len(body)}", "", body]).encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400") and b"idempotency-key-malformed" in answer


@pytest.mark.parametrize(("server", "body"), [row("3.10", "house", {"type": "test.keyed"}), row("3.10", "strict", DRILL)])
def test_a_key_may_be_demanded(request, server, body):
    api = request.getfixturevalue(server).session("dora")
    answer = api.post("/v1/jobs", json=body)
    assert (answer.status_code, slug(answer)) == (400, "idempotency-key-missing") and newest(api) == []
    assert keyed(api, "given", body).status_code == 202


@rule("3.11")
def test_fifty_at_once_make_one_job(house):
    api = house.session("parallel")

    def post(_):
        return requests.post(f"{house.url}/v1/jobs", json={"type": "test.parked"}, timeout=60, headers={
            "Authorization": f"Bearer {api.key}", "Idempotency-Key": "one-of-fifty"})

    assert len(house.pids("web")) >= 1 and house.settings["web_processes"] == "2"
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(post, range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert len(api.get("/v1/jobs").json()["jobs"]) == 1


@rule("3.12")
def test_the_key_of_a_purged_job_is_410(alice):
    first = keyed(alice, "purged")
    alice.finished(first.json()["id"])
    alice.post(f"/v1/jobs/{first.json()['id']}:purge")
    answer = keyed(alice, "purged")
    assert (answer.status_code, slug(answer)) == (410, "gone")


# Calling as if it were synchronous


FATES = [
    row("3.14 3.15 4.11", "/v1/jobs", DRILL, 200, id="succeeded"),
    row("3.14 3.15 4.11", "/v1/jobs", {"type": "test.quick", "payload": {"value": None}}, 204, id="null"),
    row("3.14 3.15 4.11", "/v1/notes", {"text": "x"}, 200, id="resource"),
    row("3.14 3.15 4.11", "/v1/notes", {"text": "x", "fate": "partial"}, 200, id="partialSuccess"),
    row("3.14 3.15 4.12", "/v1/notes", {"text": "x", "fate": "fail"}, 409, id="failed by 503"),
    row("3.14 3.15 4.12", "/v1/jobs", {"type": "demo.drill", "payload": {"seconds": 0, "fail": "no", "failStatus": 415}}, 415,
        id="failed by 415"),
    row("3.14 3.15 2.2", "/v1/jobs", {"type": "test.parked", "queueTtl": 1}, 409, id="never started")]


@pytest.mark.parametrize(("path", "body", "status"), FATES)
@pytest.mark.parametrize("how", ["query", "prefer"])
def test_the_facade_answers_what_result_answers(alice, house, path, body, status, how):
    options = {"params": {"wait": 30}} if how == "query" else {"headers": {"Prefer": 'foo, wait="30"; x=1'}}
    answer = alice.post(path, json=body, **options)
    result_url = answer.headers["Content-Location"]
    result = alice.get(result_url)
    own = ("Content-Location", "Link", "Location", "Vary", "Preference-Applied", "Date", "X-Request-Id")
    assert (answer.status_code, answer.content) == (status, result.content) == (result.status_code, result.content)
    assert {name: value for name, value in answer.headers.items() if name not in own} == {
        name: value for name, value in result.headers.items() if name not in own}
    job_url = result_url.removesuffix("/result")
    job = alice.get(job_url).json()
    assert answer.headers["Link"] == f'<{job_url}>; rel="monitor"' and "Prefer" in answer.headers["Vary"]
    assert answer.headers.get("Preference-Applied") == (None if how == "query" else "wait=30")
    assert answer.headers.get("Location") == (house.url + job["resource"] if job["resource"] else None)


@rule("3.14", "4.12")
def test_the_facade_of_a_cancelled_job(alice, house):
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(house.session("alice").post, "/v1/jobs?wait=30", json={"type": "test.parked", "tags": ["facade"]})
        job = wait_for(lambda: alice.get("/v1/jobs?tag=facade&status=queued").json()["jobs"])[0]
        end(alice, job)
        answer = answer.result(20)
    assert (answer.status_code, slug(answer)) == (409, "job-cancelled")
    assert answer.content == alice.get(f"/v1/jobs/{job['id']}/result").content


@rule("3.15")
def test_the_facade_falls_back_to_202(alice):
    answer = alice.post("/v1/jobs?wait=0.2", json={"type": "test.parked"})
    assert answer.status_code == 202 and answer.json()["status"] == "queued" and answer.headers["Retry-After"]
    end(alice, answer.json())


@pytest.mark.parametrize(("headers", "status", "applied"), [
    row("3.14", {}, 200, None), row("3.14", {"Prefer": "respond-async"}, 202, "respond-async"),
    row("3.14", {"Prefer": "wait=0"}, 202, "wait=0"), row("3.14", {"Prefer": "respond-async, wait=999"}, 200, "wait=50"),
    row("3.14", {"Prefer": "wait=soon, wait=-1, =, ;;, handling=lenient"}, 200, None)])
def test_a_type_may_be_synchronous_by_default(alice, headers, status, applied):
    answer = alice.post("/v1/jobs", json={"type": "test.quick", "payload": {"value": 7, "seconds": 0.2}}, headers=headers)
    assert (answer.status_code, answer.headers.get("Preference-Applied")) == (status, applied)
    assert answer.json() == 7 if status == 200 else answer.json()["status"] in ("queued", "running")


@rule("3.14", "8.3")
def test_a_key_may_be_synchronous_by_default(house):
    key = house.admin.post("/v1/keys", json={"owner": "sync", "syncWait": 20}).json()
    answer = requests.post(f"{house.url}/v1/jobs", json={"type": "demo.drill", "payload": {"seconds": 0, "value": 1}}, timeout=30,
                           headers={"Authorization": f"Bearer {key['key']}"})
    assert (key["syncWait"], answer.status_code, answer.json()) == (20, 200, {"value": 1})


@pytest.mark.parametrize("wait", [row("3.14", "soon"), row("3.14", "-1"), row("3.14", "nan"), row("3.14", "inf")])
def test_an_unusable_wait_in_the_query_is_400(alice, wait):
    before = newest(alice)
    answer = alice.post(f"/v1/jobs?wait={wait}", json=DRILL)
    assert (answer.status_code, slug(answer), newest(alice)) == (400, "bad-parameter", before)


# A COMMIT whose answer is lost


class Severing:
    """A TCP proxy in front of PostgreSQL that, when `armed`, passes the next COMMIT on, cuts the connection, and takes no new
    one while `closed`; `closes` says whether it does both."""

    def __init__(self, port: int):
        import threading
        self.armed, self.closes, self.closed, self._port, self._cut = False, False, False, port, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        import threading
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target, client), daemon=True).start()

    def _pass(self, source, target, client):
        try:
            while (data := source.recv(65536)) and client not in self._cut:
                if source is client and self.armed and b"COMMIT" in data:
                    self.armed, self.closed = False, self.closes
                    self._cut.add(client)       # the server's answer ends the connection instead of reaching it
                target.sendall(data)
        except OSError:
            pass
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@rule("3.13")
@pytest.mark.postgres
@pytest.mark.skipif(sys.platform != "linux", reason="the fixture's server is found on Linux")
def test_a_commit_whose_answer_is_lost(postgres_url, tmp_path):
    import psycopg

    from app import create_app
    from jobs.core import models
    from jobs.core.idempotency import Claim
    from jobs.core.submission import Submission
    from jobs.errors import StorageUnknown
    from jobs.web import submissions

    port = postgres_url.rpartition(":")[2].partition("/")[0]
    proxy = Severing(int(port))
    given = settings.load({}, data_dir=tmp_path, database_url=postgres_url.replace(f":{port}/", f":{proxy.port}/"))
    app = create_app(given)
    db = app.extensions["accepted"].db
    models.prepare(db, given)
    asked = Submission(type="demo.drill", owner="alice", queue="nobody", payload="{}", timeout=60, retention=60, max_attempts=1,
                       start_within=60)

    def claim(key):
        return Claim("alice", "POST", "/v1/jobs", key, "fingerprint")

    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as direct, app.app_context():
        def count():
            return direct.execute("SELECT count(*) FROM jobs").fetchone()[0]

        proxy.armed = True
        made = submissions.store(asked, claim("asked"))
        assert not proxy.armed and count() == 1 and not made.replayed
        proxy.armed = proxy.closes = True
        with pytest.raises(StorageUnknown):
            submissions.store(asked, claim("lost"))
        assert not proxy.armed and count() == 2
        proxy.closed = False
        again = submissions.store(asked, claim("lost"))
        assert again.replayed and again.job.id != made.job.id and count() == 2
        db.close()
        proxy.listener.close()


@rule("3.12")
def test_a_key_lives_as_long_as_its_job(alice):
    job = in_state(alice, "succeeded")
    assert alice.job(job["id"])["expiresAt"] > (datetime.now(UTC) + timedelta(days=1)).isoformat()
