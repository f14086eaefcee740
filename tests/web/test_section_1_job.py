"""Section 1 of docs/http.md: what a job looks like."""

import json
import re
import time
from itertools import pairwise

import pytest

from jobs import clock
from tests.stack import wait_for
from tests.web.making import STATES, accept_many, end, in_state
from tests.web.rules import row, rule

MEMBERS = ("id version type status progress stage eta priority payload tags callbackUrl timeout attempt maxAttempts nextAttemptAt "
           "createdAt updatedAt startedAt heartbeatAt finishedAt cancelRequestedAt notBefore expiresAt retryOf resource owner links").split()
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LINKS = {"self", "events", "logs", "attempts", "artifacts", "result"}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(("status", "more_members", "more_links"), [
    row("1.1 1.8 1.11", "queued", set(), {"cancel"}),
    row("1.1 1.8 1.11", "running", set(), {"cancel"}),
    row("1.1 1.8 1.11", "succeeded", {"result"}, set()),
    row("1.1 1.8 1.11", "failed", {"error"}, {"retry"}),
    row("1.1 1.8 1.11", "cancelled", set(), {"retry"}),
    row("1.1 1.8 1.11", "partialSuccess", {"result", "error"}, {"retry"})])
def test_members_and_links_follow_the_state(alice, status, more_members, more_links):
    job = in_state(alice, status)
    assert job["status"] == status
    assert set(job) == set(MEMBERS) | more_members
    assert set(job["links"]) == LINKS | more_links
    assert all(alice.get(job["links"][name], stream=True).status_code < 500 for name in LINKS - {"events"})
    end(alice, job)


@rule("1.1", "1.4", "1.9", "1.10")
def test_what_does_not_apply_is_null(alice):
    job = in_state(alice, "queued")
    assert [job[name] for name in ("startedAt", "heartbeatAt", "finishedAt", "expiresAt", "nextAttemptAt", "cancelRequestedAt",
                                   "notBefore", "retryOf", "resource", "callbackUrl", "stage", "eta")] == [None] * 12
    assert (job["attempt"], job["maxAttempts"], job["progress"], job["priority"], job["timeout"]) == (0, 3, 0, "normal", 3600)
    assert TIME.fullmatch(job["createdAt"]) and job["updatedAt"] == job["createdAt"]


@rule("1.4", "1.10")
def test_times_have_one_form_and_retention_counts_from_the_end(alice):
    job = in_state(alice, "succeeded")
    times = [value for name, value in job.items() if name.endswith("At") and value is not None]
    assert len(times) == 6 and all(TIME.fullmatch(text) for text in times)
    assert job["createdAt"] <= job["startedAt"] <= job["heartbeatAt"] <= job["finishedAt"] <= job["updatedAt"]
    from datetime import datetime, timedelta
    finished, expires = (datetime.fromisoformat(job[name]) for name in ("finishedAt", "expiresAt"))
    assert expires - finished == timedelta(days=30)


@rule("1.2", "1.3")
def test_ids_and_versions_grow(alice, house):
    first, second = in_state(alice, "queued"), in_state(alice, "queued")
    assert first["id"].isdigit() and int(first["id"]) < int(second["id"])
    assert isinstance(first["version"], int) and first["version"] < second["version"]
    cancelled = alice.delete(f"/v1/jobs/{first['id']}").json()
    assert cancelled["version"] > second["version"]
    answer = alice.get(f"/v1/jobs/{first['id']}")
    assert answer.headers["ETag"].startswith(f'"{cancelled["version"]}-')
    assert f"id: {cancelled['version']}\n" in alice.get(f"/v1/jobs/{first['id']}/events").text
    alice.post(f"/v1/jobs/{second['id']}:cancel")
    assert alice.post(f"/v1/jobs/{second['id']}:purge").status_code == 204
    assert int(in_state(alice, "queued")["id"]) > int(second["id"])


@rule("1.5", "1.6")
def test_progress_never_falls_and_ends_at_100_on_success_alone(alice):
    job = alice.submit("demo.drill", seconds=2.5, steps=40)
    assert job["progress"] == 0
    seen = []
    while True:
        job = alice.get(f"/v1/jobs/{job['id']}?wait=5", headers={"If-None-Match": f'"{job["version"]}-job1"'}).json()
        if job["status"] != "running":
            break
        seen.append((job["progress"], job["stage"], job["eta"]))
    progress = [each[0] for each in seen]
    assert progress == sorted(progress) and len(set(progress)) > 1 and progress[-1] <= 99
    assert re.fullmatch(r"step \d+ of 40", seen[-1][1]) and TIME.fullmatch(seen[-1][2])
    assert (job["status"], job["progress"], job["stage"], job["eta"]) == ("succeeded", 100, None, None)


@pytest.mark.parametrize(("payload", "status"), [
    row("1.5", {"fail": "no"}, "failed"), row("1.5", {"partial": ["a"]}, "partialSuccess")])
def test_progress_stays_where_it_was_when_the_end_is_another(alice, payload, status):
    job = alice.finished(alice.submit("demo.drill", seconds=0.2, steps=2, **payload)["id"])
    assert (job["status"], job["progress"]) == (status, 50)


@rule("1.5")
def test_progress_is_null_while_the_length_is_unknown(alice):
    job = alice.submit("demo.drill", seconds=60, unknownLength=True)
    wait_for(lambda: alice.job(job["id"])["status"] == "running" and alice.job(job["id"])["progress"] is None)
    end(alice, job)
    assert alice.finished(job["id"])["progress"] is None


SECRET, NESTED = "sesame-open-4711", "hunter22-nested"


@pytest.mark.parametrize(("fate", "status"), [
    row("1.7", "succeed", "succeeded"), row("1.7", "fail", "failed"), row("1.7", "raise", "failed"),
    row("1.7", "partial", "partialSuccess")])
def test_secrets_are_covered_wherever_the_job_is_shown(alice, house, fate, status):
    payload = {"token": SECRET, "logins": [{"user": "a", "password": NESTED}], "fate": fate}
    id = alice.submit("test.secret", **payload)["id"]
    job = alice.finished(id)
    assert job["status"] == status
    assert job["payload"] == {"token": "•••", "logins": [{"user": "a", "password": "•••"}], "fate": fate}
    if status in ("succeeded", "partialSuccess"):
        assert job["result"] == {"token": "•••", "length": len(SECRET)}     # the work itself had it whole
    everything = "".join(alice.get(path).text for path in (
        f"/v1/jobs/{id}", f"/v1/jobs/{id}/logs", f"/v1/jobs/{id}/attempts", f"/v1/jobs/{id}/events", f"/v1/jobs/{id}/result",
        f"/v1/jobs?ids={id}", "/v1/jobs/changes?since=0&limit=200"))
    assert "•••" in alice.get(f"/v1/jobs/{id}/logs").text
    assert SECRET not in everything and NESTED not in everything
    assert alice.get("/v1/jobs", params={"q": SECRET}).json()["jobs"] == []


@rule("1.8")
def test_a_partial_success_names_each_failed_part(alice):
    job = alice.finished(alice.submit("demo.drill", seconds=0, partial=["720p", "480p"], value=3)["id"])
    assert job["result"] == {"value": 3}
    assert [part["part"] for part in job["error"]["errors"]] == ["720p", "480p"]
    assert job["error"]["type"].endswith("/problems/parts-failed")


@rule("1.9")
def test_a_second_attempt_is_announced(alice):
    job = alice.submit("demo.drill", {"maxAttempts": 2}, seconds=0, failAttempts=1, value=5)
    waiting = wait_for(lambda: (now := alice.job(job["id"]))["attempt"] == 1 and now["status"] == "queued" and now)
    assert waiting["nextAttemptAt"] > waiting["updatedAt"] and waiting["progress"] == 0
    done = alice.finished(job["id"])
    assert (done["status"], done["attempt"], done["nextAttemptAt"]) == ("succeeded", 2, None)


@rule("1.12")
def test_a_silent_job_moves_at_the_keepalive_and_no_more(alice):
    """The stack beats every 0.5 s and has a KEEPALIVE of 1 s."""
    job = alice.reached(alice.submit("demo.drill", seconds=600, steps=1)["id"], {"running"})
    beats = []
    while len(beats) < 4:
        beat = clock.parse(alice.job(job["id"])["heartbeatAt"])
        beats += [beat] if beat not in beats else []
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(beats)]
    assert all(pause >= 0.9 for pause in pauses[1:])    # before the first of them came the report of the start
    end(alice, job)


# JSON that slips through elsewhere


@pytest.mark.parametrize("value", [
    row("1.13", 2**53 + 1), row("1.13", -(2**64)), row("1.13", 10**400, id="10**400"), row("1.13", 0.1), row("1.13", "\0 \u2028 😀"),
    row("1.13", {"": {"a/b~c": [None, True, 1e308]}})])
def test_values_travel_unharmed(alice, value):
    answer = alice.post("/v1/jobs?wait=20", json={"type": "test.quick", "payload": {"value": value}})
    assert (answer.status_code, answer.json()) == (200, value)
    id = answer.headers["Content-Location"].split("/")[-2]
    assert alice.job(id)["payload"]["value"] == value and alice.job(id)["result"] == value
    assert alice.get(f"/v1/jobs?ids={id}").json()["jobs"][0]["result"] == value


def in_payload(text: bytes) -> bytes:
    return b'{"type": "demo.drill", "payload": {"value": ' + text + b"}}"


@pytest.mark.parametrize(("body", "says"), [
    row("1.13 3.4", b"{", "Expecting"), row("1.13", b"", "The body is empty"), row("1.13", in_payload(b"NaN"), "NaN"),
    row("1.13", in_payload(b"-Infinity"), "Infinity"), row("1.13", in_payload(b"1e400"), "1e400"),
    row("1.13", in_payload(rb'"\ud800"'), "surrogate"), row("1.13", in_payload(rb'{"\udfff": 1}'), "surrogate"),
    row("1.13", b'{"type": "demo.drill", "type": "x"}', '"type"'), row("1.13", in_payload(b'{"a": {"b": 1, "b": 2}}'), '"b"'),
    row("1.13", in_payload(b"[" * 200 + b"]" * 200), "100 levels", id="200 levels"),
    row("1.13", in_payload(b"[" * 100_000 + b"]" * 100_000), "100 levels", id="100,000 levels"),
    row("1.13", in_payload(b'"\xff"'), "UTF-8"), row("1.13", in_payload(b"9" * 5000), "limit", id="5000 digits"),
    row("1.13", b"\xef\xbb\xbf{}", "BOM")])
def test_what_is_no_honest_json_is_refused(alice, body, says):
    before = alice.get("/v1/jobs?limit=1").json()["jobs"]
    answer = alice.post("/v1/jobs", data=body, headers=JSON)
    problem = answer.json()
    assert (answer.status_code, problem["type"].rpartition("/")[2]) == (400, "malformed-json")
    assert says in problem["detail"]
    assert alice.get("/v1/jobs?limit=1").json()["jobs"] == before


@rule("1.13")
def test_many_equal_keys_cost_no_time(alice):
    keys = ",".join(f'"k{number}":0' for number in range(60_000))
    started = time.monotonic()
    answer = alice.post("/v1/jobs", data=f'{{{keys},"k0":1}}', headers=JSON)
    assert answer.status_code == 400 and '"k0"' in answer.json()["detail"] and time.monotonic() - started < 25


@pytest.mark.parametrize("chunked", [row("1.14 3.4", False), row("1.14 3.4", True)])
def test_a_body_over_the_limit_is_413(alice, chunked):
    body = in_payload(b'"' + b"x" * 1024**2 + b'"')
    answer = alice.post("/v1/jobs", data=iter([body]) if chunked else body, headers=JSON)
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (413, "too-large")
    assert str(1024**2) in answer.json()["detail"]
    assert alice.get("/livez").status_code == 200     # on the same connection


@pytest.mark.parametrize("megabytes", [row("1.14 5.6", 1), row("1.14 5.6", 8), row("1.14 5.6", 50)])
def test_big_bodies_and_results_are_kept_whole_and_slow_no_list(strict, megabytes):
    api = strict.session(f"big{megabytes}")
    size = megabytes * 1024**2
    api.headers["Idempotency-Key"] = f"big-{megabytes}"
    since = api.get("/v1/jobs/changes").json()["nextCursor"]
    job = api.submit("test.big", size=size, filler="y" * size)
    done = api.get(f"/v1/jobs/{job['id']}?wait=50").json()
    assert done["status"] == "succeeded" and done["payload"]["filler"] == "y" * size
    assert api.get(f"/v1/jobs/{job['id']}/result").json() == {"filler": "x" * size}
    for path in (f"/v1/jobs?ids={job['id']}", f"/v1/jobs/changes?since={since}"):
        page = api.get(path)
        (shown,) = page.json().get("jobs") or page.json()["changes"]
        assert shown["truncated"] is True and "payload" not in shown and "result" not in shown and len(page.content) < 2000
    stream = api.get(f"/v1/jobs/{job['id']}/events").text
    data = json.loads(stream.partition("data: ")[2].partition("\n")[0])
    assert data["resultUrl"] == f"/v1/jobs/{job['id']}/result" and "result" not in data
    api.post(f"/v1/jobs/{job['id']}:purge")


@rule("1.3")
def test_versions_are_unique_among_many(house, alice):
    ids = accept_many(house, "counted", 50)
    reader = house.session("counted")
    jobs = reader.get("/v1/jobs?limit=50").json()["jobs"]
    assert {int(job["id"]) for job in jobs} == set(ids) and len({job["version"] for job in jobs}) == 50
    assert STATES[0] == jobs[0]["status"]
