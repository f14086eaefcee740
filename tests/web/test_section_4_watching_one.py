"""Section 4 of docs/http.md: watching one job."""

import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest
import requests

from tests.stack import descendants, wait_for
from tests.web.conftest import Events
from tests.web.making import ACTIVE, STATES, accept_many, end, in_state
from tests.web.rules import row, rule

KEPT_BY_304 = ("ETag", "Cache-Control", "Vary", "Retry-After", "Expires", "Sunset")


def slug(answer) -> str:
    return answer.json()["type"].rpartition("/")[2]


def events(api, path, last=None) -> Events:
    """A stream of this caller; one connection of its own."""
    headers = {"Authorization": f"Bearer {api.key}"} | ({"Last-Event-ID": str(last)} if last is not None else {})
    return Events(requests.get(api.base + path, headers=headers, stream=True, timeout=30))


@pytest.fixture(scope="module")
def each(alice):
    """One job in every state, for tests that change nothing."""
    jobs = {state: in_state(alice, state) for state in STATES}
    yield jobs
    for state in ACTIVE:
        end(alice, jobs[state])


def changes_no_more(api, job) -> bool:
    return job["status"] != "running"


@pytest.mark.parametrize("state", [row("4.1 4.2 4.4 4.5", state) for state in STATES])
def test_a_query_succeeds_whatever_the_job_s_fate(alice, each, state):
    answer = alice.get(f"/v1/jobs/{each[state]['id']}")
    assert (answer.status_code, answer.json()["status"]) == (200, state)
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert re.fullmatch(r'"[^"]+"', answer.headers["ETag"])
    if state in ACTIVE:
        assert 1 <= int(answer.headers["Retry-After"]) <= 30 and "Expires" not in answer.headers
    else:
        assert "Retry-After" not in answer.headers
        assert answer.headers["Expires"] == answer.headers["Sunset"]
        retained = datetime.fromisoformat(answer.json()["expiresAt"]) - parsedate_to_datetime(answer.headers["Expires"])
        assert timedelta(0) <= retained < timedelta(seconds=1)


@pytest.mark.parametrize("form", [row("4.2 4.3", form) for form in ("{}", "W/{}", '"x", {} , "y"', "*", '"x",W/{}')])
@pytest.mark.parametrize("state", ["queued", "succeeded"])
def test_304_has_the_headers_of_200_and_no_body(alice, each, state, form):
    path = f"/v1/jobs/{each[state]['id']}"
    full = alice.get(path)
    fresh = alice.get(path, headers={"If-None-Match": form.format(full.headers["ETag"])})
    assert (fresh.status_code, fresh.content) == (304, b"") and "Content-Type" not in fresh.headers
    assert {name: fresh.headers.get(name) for name in KEPT_BY_304} == {name: full.headers.get(name) for name in KEPT_BY_304}
    assert alice.get(path, headers={"If-None-Match": '"other", W/"x"'}).content == full.content


@rule("4.2")
def test_equal_etags_mean_equal_bytes(alice):
    job = alice.submit("demo.drill", seconds=60, steps=2000)
    bytes_of: dict[str, set] = {}
    while len(bytes_of) < 4:
        answer = alice.get(f"/v1/jobs/{job['id']}")
        bytes_of.setdefault(answer.headers["ETag"], set()).add(answer.content)
    end(alice, job)
    assert all(len(each) == 1 for each in bytes_of.values())


# Retry-After


def retry_after(api, job) -> int:
    return int(api.get(f"/v1/jobs/{job['id']}").headers["Retry-After"])


@rule("4.4")
def test_retry_after_grows_with_age(strict):
    api = strict.session("age")
    api.headers["Idempotency-Key"] = "age"
    job = api.submit("test.parked")
    assert retry_after(api, job) == 1
    strict.move(60 / 86400)
    assert 6 <= retry_after(api, job) <= 8
    strict.move(600 / 86400)
    assert retry_after(api, job) == 30


@rule("4.4")
def test_retry_after_grows_with_the_queue(strict):
    api = strict.session("queue")
    first, = accept_many(strict, "queue", 1, queue="long")
    assert retry_after(api, {"id": first}) == 1
    accept_many(strict, "queue", 100, queue="long")
    wait_for(lambda: 10 <= retry_after(api, {"id": first}) <= 12)
    accept_many(strict, "queue", 400, queue="long")
    wait_for(lambda: retry_after(api, {"id": first}) == 30)


@pytest.mark.parametrize(("seconds", "most"), [row("4.4", 600, 600), row("4.4", 86400, 3600)])
def test_retry_after_waits_for_not_before(alice, seconds, most):
    job = alice.submit("test.parked", {"notBefore": (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()})
    assert most - 5 <= retry_after(alice, job) <= most
    etag = alice.get(f"/v1/jobs/{job['id']}").headers["ETag"]
    assert int(alice.get(f"/v1/jobs/{job['id']}", headers={"If-None-Match": etag}).headers["Retry-After"]) >= most - 5
    end(alice, job)


@rule("4.4")
def test_retry_after_follows_next_attempt_and_eta(alice):
    job = alice.submit("demo.drill", {"maxAttempts": 3}, seconds=0, failAttempts=2)
    wait_for(lambda: alice.job(job["id"])["attempt"] == 2 and alice.job(job["id"])["nextAttemptAt"])
    assert 4 <= retry_after(alice, job) <= 13      # the second pause is about ten seconds
    end(alice, job)
    job = alice.submit("demo.drill", seconds=20, steps=200)
    wait_for(lambda: alice.job(job["id"])["eta"])
    assert 12 <= retry_after(alice, job) <= 24
    end(alice, job)


# Long polls


def timed(api, path, **options):
    started = time.monotonic()
    answer = api.get(path, **options)
    return answer, time.monotonic() - started


@pytest.mark.parametrize("how", [row("4.6", {"params": {"wait": "50"}}), row("4.6", {"headers": {"Prefer": "wait=50"}})])
def test_a_long_poll_holds_until_the_end(alice, house, how):
    job = alice.submit("test.parked")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(house.session("alice").get, f"/v1/jobs/{job['id']}", **how)
        time.sleep(0.3)
        assert not held.done()
        end(alice, job)
        answer = held.result(60)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert answer.headers.get("Preference-Applied") == ("wait=50" if "headers" in how else None)
    assert "ETag" in answer.headers and "Sunset" in answer.headers and "Prefer" in answer.headers["Vary"]


@rule("4.6", "4.7")
def test_a_long_poll_ends_in_time(alice, each):
    path = f"/v1/jobs/{each['queued']['id']}?wait=0.4"
    answer, took = timed(alice, path)
    assert (answer.status_code, answer.json()["status"]) == (200, "queued") and 0.4 <= took < 25
    held, took = timed(alice, path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (held.status_code, held.content) == (304, b"") and 0.4 <= took < 25 and held.headers["ETag"] == answer.headers["ETag"]
    at_once, took = timed(alice, f"/v1/jobs/{each['queued']['id']}?wait=50", headers={"If-None-Match": '"other"'})
    assert at_once.status_code == 200 and took < 25


@rule("4.7")
def test_a_conditional_long_poll_holds_until_the_version_differs(alice, house):
    job = alice.submit("test.parked")
    etag = alice.get(f"/v1/jobs/{job['id']}").headers["ETag"]
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(house.session("alice").get, f"/v1/jobs/{job['id']}?wait=50", headers={"If-None-Match": etag})
        time.sleep(0.3)
        assert not held.done()
        end(alice, job)
        answer = held.result(60)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled") and answer.headers["ETag"] != etag


@pytest.mark.parametrize("path", [row("4.8", path) for path in (
    "/v1/jobs/{}", "/v1/jobs/{}?wait=50", "/v1/jobs/{}/events", "/v1/jobs/{}/logs", "/v1/jobs/{}/logs?follow=true", "/v1/jobs/{}/result",
    "/v1/jobs/{}/attempts", "/v1/jobs/{}/artifacts", "/v1/jobs", "/v1/jobs/changes?wait=50", "/v1/events", "/v1/job-types", "/livez")])
def test_head_is_get_without_a_body_at_once(alice, each, path):
    path = path.format(each["queued"]["id"])
    started = time.monotonic()
    head = alice.head(path)
    assert head.status_code in (200, 202) and head.content == b"" and time.monotonic() - started < 25
    with alice.get(path.replace("wait=50", ""), stream=True) as full:
        for name in ("Content-Type", "ETag", "Cache-Control"):
            assert head.headers.get(name) == full.headers.get(name)
    assert alice.get("/livez").status_code == 200      # the connection was left in order


@rule("4.9", "4.16")
def test_waiting_clients_cost_no_thread_and_leave_no_trace(alice, house):
    """Two web processes of four threads each, forty streams and forty held polls."""
    job = alice.submit("test.parked")

    def threads() -> int:
        return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in web)

    def files() -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in web)

    web = [pid for pid, line in descendants(house.process.pid).items() if "gunicorn" in line]
    alice.get(f"/v1/jobs/{job['id']}")
    streams = [events(alice, f"/v1/jobs/{job['id']}/events") for _ in range(40)]
    assert all(stream.next()[0] == "progress" for stream in streams)
    with ThreadPoolExecutor(40) as pool:
        polls = [pool.submit(requests.get, f"{house.url}/v1/jobs/{job['id']}?wait=50", timeout=90,
                             headers={"Authorization": f"Bearer {alice.key}"}) for _ in range(40)]
        time.sleep(0.5)
        answer, took = timed(alice, f"/v1/jobs/{job['id']}")
        assert answer.status_code == 200 and took < 25 and not any(poll.done() for poll in polls)
        assert threads() < 30
        full = files()
        for stream in streams:
            stream.close()
        wait_for(lambda: files() <= full - 40, what="forty vanished clients to be freed")
        end(alice, job)
        assert {poll.result(60).json()["status"] for poll in polls} == {"cancelled"}


# The result


RESULTS = [
    row("4.10", "queued", 202, None), row("4.10", "running", 202, None), row("4.11", "succeeded", 200, {"value": 1}),
    row("4.11", "partialSuccess", 200, {"value": 2}), row("4.12", "failed", 422, "drill-failed"),
    row("4.12", "cancelled", 409, "job-cancelled")]


@pytest.mark.parametrize(("state", "status", "body"), RESULTS)
@pytest.mark.parametrize("query", ["", "?redirect=true"])
def test_the_result_in_every_state(alice, house, each, state, status, body, query):
    path = f"/v1/jobs/{each[state]['id']}/result"
    answer = alice.get(path + query, allow_redirects=False)      # a drill has no resource
    assert answer.status_code == status
    if status == 202:
        assert answer.json()["status"] == state and answer.headers["Location"] == house.url + path
        assert 1 <= int(answer.headers["Retry-After"]) <= 30
    elif status == 200:
        assert answer.json() == body
    else:
        assert slug(answer) == body and answer.json()["status"] == status and "Retry-After" not in answer.headers


@pytest.mark.parametrize(("fate", "plain", "redirected"), [
    row("4.11", "ready", 200, 303), row("4.11", "null", 204, 303), row("4.11", "partial", 200, 303), row("4.12", "fail", 409, 409)])
def test_the_result_of_a_type_with_a_resource(alice, house, fate, plain, redirected):
    job = alice.finished(alice.submit("test.note", text="abc", fate=fate)["id"])
    path = f"/v1/jobs/{job['id']}/result"
    answer = alice.get(path)
    assert answer.status_code == plain and (plain != 204 or (answer.content == b"" and "Content-Type" not in answer.headers))
    answer = alice.get(path, params={"redirect": "true"}, allow_redirects=False)
    assert answer.status_code == redirected
    assert answer.headers.get("Location") == (house.url + job["resource"] if redirected == 303 else None)
    assert alice.get(path, params={"redirect": "false"}).status_code == plain
    assert slug(alice.get(path, params={"redirect": "maybe"})) == "bad-parameter"


@pytest.mark.parametrize(("own", "shown"), [row("4.12", own, own) for own in (400, 409, 413, 415, 422, 424)]
                         + [row("4.12", own, 409) for own in (401, 404, 410, 429, 500, 503)])
def test_the_status_of_a_failure(alice, own, shown):
    job = alice.finished(alice.submit("demo.drill", seconds=0, fail="no", failStatus=own)["id"])
    answer = alice.get(f"/v1/jobs/{job['id']}/result")
    assert (answer.status_code, answer.json()["status"]) == (shown, shown) and job["error"]["status"] == own
    if own == shown:
        assert answer.json() == job["error"]
    else:
        assert slug(answer) == "job-failed" and answer.json()["error"] == job["error"]


@rule("4.12", "6.6")
def test_the_result_of_a_purged_job_is_gone(alice):
    job = in_state(alice, "succeeded")
    alice.post(f"/v1/jobs/{job['id']}:purge")
    assert slug(alice.get(f"/v1/jobs/{job['id']}/result")) == "gone"


# Streams


@rule("4.13", "4.15")
def test_a_stream_from_start_to_end(alice):
    job = alice.submit("demo.drill", seconds=1.5, steps=30, value=[1])
    stream = events(alice, f"/v1/jobs/{job['id']}/events")
    assert {name: stream.response.headers[name] for name in ("Content-Type", "Cache-Control", "X-Accel-Buffering")} == {
        "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    frames = stream.rest()
    assert frames[0][3].startswith("retry: 3000\n") and not any("retry:" in frame[3] for frame in frames[1:])
    assert [frame[0] for frame in frames] == ["progress"] * (len(frames) - 1) + ["done"]
    shape = {"status", "progress", "stage", "eta", "attempt", "version", "updatedAt"}
    assert all(set(frame[2]) == shape for frame in frames[:-1]) and set(frames[-1][2]) == shape | {"result"}
    assert frames[-1][2]["result"] == {"value": [1]} and frames[-1][2]["status"] == "succeeded"
    ids = [frame[1] for frame in frames if frame[1] is not None]
    assert ids == sorted(set(ids)) and all(frame[1] in (None, frame[2]["version"]) for frame in frames)
    assert None in [frame[1] for frame in frames]       # fast progress that was not on disk yet
    progress = [frame[2]["progress"] for frame in frames]
    assert progress == sorted(progress)


@pytest.mark.parametrize(("state", "more"), [
    row("4.13", "succeeded", {"result"}), row("4.13", "partialSuccess", {"result", "error"}), row("4.13", "failed", {"error"}),
    row("4.13", "cancelled", set())])
def test_a_terminal_job_is_done_alone(alice, each, state, more):
    (event, id, data, _), = events(alice, f"/v1/jobs/{each[state]['id']}/events").rest()
    assert (event, id, data["status"]) == ("done", each[state]["version"], state)
    assert set(data) == {"status", "progress", "stage", "eta", "attempt", "version", "updatedAt"} | more


@pytest.mark.parametrize(("size", "inside"), [row("4.13", 60_000, True), row("4.13", 70_000, False)])
def test_a_big_result_is_named_instead(alice, size, inside):
    job = alice.finished(alice.submit("test.big", size=size)["id"])
    (_, _, data, _), = events(alice, f"/v1/jobs/{job['id']}/events").rest()
    assert ("result" in data, data.get("resultUrl")) == (inside, None if inside else f"/v1/jobs/{job['id']}/result")


@rule("4.14")
def test_a_stream_resumes_without_gap_or_repeat(alice):
    job = alice.submit("demo.drill", seconds=2.5, steps=50)
    stream, seen = events(alice, f"/v1/jobs/{job['id']}/events"), []
    while not seen or seen[-1]["event"] != "done":
        event, id, data, _ = stream.next()
        seen.append({"event": event, "id": id} | data)
        if len(seen) in (2, 4):
            stream.close()
            last = next(frame["id"] for frame in reversed(seen) if frame["id"] is not None)
            stream = events(alice, f"/v1/jobs/{job['id']}/events", last)
    ids = [frame["id"] for frame in seen if frame["id"] is not None]
    assert ids == sorted(set(ids)) and seen[-1]["status"] == "succeeded"
    after = alice.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": str(ids[-1])})
    assert (after.status_code, after.content) == (204, b"")
    for unknown in ("x", "0", "99999999999999999999"):
        assert "event: done" in alice.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": unknown}).text


@rule("4.15")
def test_a_silent_stream_is_kept_alive(alice):
    job = alice.submit("test.parked")
    stream = events(alice, f"/v1/jobs/{job['id']}/events")
    frames = iter(stream)
    assert next(frames)[0] == "progress"
    assert next(frames) == ("comment", None, None, ":")
    end(alice, job)


@rule("4.17")
def test_one_stream_for_all_jobs(house, bob):
    api = house.session("everything")
    cursor = api.get("/v1/jobs/changes").json()["nextCursor"]
    stream = events(api, "/v1/events")
    time.sleep(0.2)
    foreign, job = bob.submit("test.parked"), api.submit("test.parked")
    event, id, data, _ = stream.next()
    assert (event, data["id"], id) == ("progress", job["id"], job["version"])
    end(api, job)
    event, id, data, _ = stream.next()
    assert (event, data["id"], data["status"]) == ("done", job["id"], "cancelled")
    (later,) = api.get(f"/v1/jobs/changes?since={cursor}").json()["changes"]
    assert later["version"] == id
    other = api.submit("test.parked")
    resumed = events(api, "/v1/events", id).next()
    assert (resumed[2]["id"], resumed[1]) == (other["id"], other["version"])
    end(api, other)
    end(bob, foreign)


@rule("4.16", "8.4")
def test_a_revoked_key_s_streams_close(house, alice):
    made = house.admin.post("/v1/keys", json={"owner": "alice"}).json()
    job = alice.submit("test.parked")
    streams = [Events(requests.get(house.url + path, stream=True, timeout=60, headers={"Authorization": f"Bearer {made['key']}"}))
               for path in (f"/v1/jobs/{job['id']}/events", "/v1/events", f"/v1/jobs/{job['id']}/logs?follow=true")]
    ended = [threading.Event() for _ in streams]

    def read(stream, over):
        try:
            stream.rest()
        except requests.RequestException:
            pass        # cut in the middle
        over.set()

    for stream, over in zip(streams, ended, strict=True):
        threading.Thread(target=read, args=(stream, over), daemon=True).start()
    time.sleep(0.3)
    assert not any(over.is_set() for over in ended)
    assert house.admin.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert all(over.wait(60) for over in ended)
    end(alice, job)


# The log


@pytest.fixture(scope="module")
def logged(alice):
    """A job that has written twelve lines."""
    return alice.finished(alice.submit("demo.drill", seconds=0.3, steps=3, logLines=12)["id"])


@rule("4.18")
def test_the_log_in_pages(alice, logged):
    path = f"/v1/jobs/{logged['id']}/logs"
    page = alice.get(path, params={"limit": 5}).json()
    assert [line["line"] for line in page["lines"]] == [f"line {number} of 12" for number in range(1, 6)]
    assert set(page["lines"][0]) == {"id", "attempt", "at", "line"} and page["next"] == page["lines"][-1]["id"]
    rest = alice.get(path, params={"after": page["next"]}).json()
    assert [line["line"] for line in rest["lines"]] == [f"line {number} of 12" for number in range(6, 13)]
    assert alice.get(path, params={"after": rest["next"]}).json() == {"lines": [], "next": rest["next"]}
    assert slug(alice.get(path, params={"after": "x"})) == "bad-parameter"


@rule("4.18")
def test_the_log_as_text(alice, logged):
    answer = alice.get(f"/v1/jobs/{logged['id']}/logs", headers={"Accept": "text/plain"})
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    lines = answer.text.splitlines()
    assert len(lines) == 12 and re.fullmatch(r"\d{4}-\S+Z line 12 of 12", lines[-1])
    answer = alice.get(f"/v1/jobs/{logged['id']}/logs", headers={"Accept": "image/png"})
    assert answer.status_code == 406 and "text/plain" in answer.headers["Accept"]


@rule("4.19")
def test_the_log_followed(alice):
    job = alice.submit("demo.drill", seconds=1.5, steps=10, logLines=40)
    frames = events(alice, f"/v1/jobs/{job['id']}/logs?follow=true").rest()
    assert [frame[2]["line"] for frame in frames[:-1]] == [f"line {number} of 40" for number in range(1, 41)]
    assert {frame[0] for frame in frames[:-1]} == {"line"} and (frames[-1][0], frames[-1][2]["status"]) == ("done", "succeeded")
    ids = [frame[1] for frame in frames[:-1]]
    assert ids == sorted(set(ids)) == [frame[2]["id"] for frame in frames[:-1]]
    resumed = events(alice, f"/v1/jobs/{job['id']}/logs?follow=true", ids[36]).rest()
    assert [frame[1] for frame in resumed[:-1]] == ids[37:]
    assert alice.get(f"/v1/jobs/{job['id']}/logs?follow=true", headers={"Last-Event-ID": str(ids[-1])}).status_code == 204
    by_accept = alice.get(f"/v1/jobs/{job['id']}/logs", headers={"Accept": "text/event-stream"})
    assert by_accept.text.count("event: line") == 40


@rule("4.20")
def test_what_a_job_left(alice):
    job = alice.finished(alice.submit("demo.drill", seconds=0, artifact="a.txt")["id"])
    (artifact,) = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    assert artifact["name"] == "a.txt" and alice.get(f"/v1/artifacts/{artifact['id']}").json() == artifact
    (attempt,) = alice.get(f"/v1/jobs/{job['id']}/attempts").json()["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["error"], attempt["startedAt"]) == (1, "succeeded", None, job["startedAt"])
    assert attempt["worker"] and attempt["endedAt"] == job["finishedAt"]
