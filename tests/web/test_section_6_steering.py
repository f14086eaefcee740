"""Section 6 of docs/http.md: cancel, retry, purge, one by one and in bulk."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.stack import descendants, wait_for
from tests.web.making import accept_many, database, end, in_state
from tests.web.rules import row, rule


def slug(answer) -> str:
    return answer.json()["type"].rpartition("/")[2]


# Cancel


@pytest.mark.parametrize("verb", [row("6.1", ("POST", ":cancel")), row("6.1", ("DELETE", ""))])
def test_cancelling_a_running_job(alice, house, verb):
    job = in_state(alice, "running")
    path = f"/v1/jobs/{job['id']}"
    answer = alice.request(verb[0], path + verb[1])
    assert answer.status_code == 202 and answer.json()["cancelRequestedAt"] and answer.json()["status"] == "running"
    assert answer.headers["Content-Location"] == house.url + path and answer.headers["Retry-After"]
    again = alice.request(verb[0], path + verb[1])
    assert again.status_code in (200, 202)
    done = alice.finished(job["id"])
    assert (done["status"], "result" in done, "error" in done) == ("cancelled", False, False)
    assert alice.request(verb[0], path + verb[1]).json() == done


@rule("6.1")
def test_delete_never_deletes_a_result(alice):
    job = in_state(alice, "succeeded")
    assert alice.delete(f"/v1/jobs/{job['id']}").status_code == 409
    assert alice.job(job["id"]) == job


@rule("6.2")
def test_work_that_ignores_a_cancel_is_killed(alice, house):
    """The stack's GRACE is one second."""
    job = alice.reached(alice.submit("demo.drill", seconds=600, ignoreCancel=True)["id"], {"running"})
    started = time.monotonic()
    alice.delete(f"/v1/jobs/{job['id']}")
    assert alice.finished(job["id"])["status"] == "cancelled" and time.monotonic() - started > 0.8


# Retry


@rule("6.4", "1.7")
def test_a_retry_is_a_new_job_with_the_same_work(alice, house):
    options = {"tags": ["x"], "priority": "low", "callbackUrl": "http://127.0.0.1:9/", "timeout": 77, "maxAttempts": 1}
    job = alice.finished(alice.submit("test.secret", options, token="sesame-4711", fate="fail")["id"])
    answer = alice.post(f"/v1/jobs/{job['id']}:retry")
    made = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (202, f"{house.url}/v1/jobs/{made['id']}")
    assert made["id"] != job["id"] and made["retryOf"] == job["id"] and made["attempt"] == 0
    same = ("type", "payload", "owner", *options)
    assert {name: made[name] for name in same} == {name: job[name] for name in same}
    done = alice.finished(made["id"])
    assert (done["status"], done["error"]["detail"]) == ("failed", "••• does not fit")     # it had the secret again
    assert alice.job(job["id"]) == job
    changed = alice.post(f"/v1/jobs/{job['id']}:retry", json={"priority": "high", "tags": [], "callbackUrl": None, "timeout": 5}).json()
    assert (changed["priority"], changed["tags"], changed["callbackUrl"], changed["timeout"]) == ("high", [], None, 5)
    bad = alice.post(f"/v1/jobs/{job['id']}:retry", json={"timeout": 0, "payload": {}})
    assert bad.status_code == 422 and {fault["pointer"] for fault in bad.json()["errors"]} == {"#/timeout", "#/payload"}


@rule("6.4")
def test_a_retry_makes_the_resource_again(alice):
    job = alice.finished(alice.submit("test.note", {"maxAttempts": 1}, text="x", fate="fail")["id"])
    assert alice.get(job["resource"]).json()["status"] == "failed"
    made = alice.post(f"/v1/jobs/{job['id']}:retry", json={"notBefore": "2027-06-01T00:00:00Z"}).json()
    resource = alice.get(job["resource"]).json()
    assert made["resource"] == job["resource"] and (resource["status"], resource["job"]) == ("processing", f"/v1/jobs/{made['id']}")
    end(alice, made)
    assert alice.get(job["resource"]).json()["status"] == "cancelled"


@rule("6.4")
def test_an_admin_s_retry_stays_the_owner_s(alice, house):
    job = in_state(alice, "failed")
    made = house.admin.post(f"/v1/jobs/{job['id']}:retry").json()
    assert made["owner"] == "alice" and alice.finished(made["id"])["status"] == "failed"


@rule("6.5")
def test_parallel_retries_under_one_key_make_one_job(alice, house):
    job = in_state(alice, "failed")

    def retry(_):
        return requests.post(f"{house.url}/v1/jobs/{job['id']}:retry", timeout=30, headers={
            "Authorization": f"Bearer {alice.key}", "Idempotency-Key": "again"})

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(retry, range(10)))
    assert {answer.status_code for answer in answers} == {202} and len({answer.headers["Location"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    other = alice.post(f"/v1/jobs/{job['id']}:retry", json={"priority": "high"}, headers={"Idempotency-Key": "again"})
    assert slug(other) == "idempotency-key-reused"


# Purge


@rule("6.6", "8.8")
def test_a_purge_takes_all_but_the_resource(alice, bob, reader, house):
    job = alice.finished(alice.submit("demo.drill", seconds=0, artifact="a.txt", logLines=3, value="precious")["id"])
    (artifact,) = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    answer = alice.post(f"/v1/jobs/{job['id']}:purge")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "Content-Type" not in answer.headers, "nothing has no type"
    for path in ("", "/result", "/events", "/logs", "/attempts", "/artifacts"):
        gone = alice.get(f"/v1/jobs/{job['id']}{path}")
        assert (gone.status_code, slug(gone)) == (410, "gone")
    assert {slug(alice.request(method, f"/v1/jobs/{job['id']}{verb}")) for method, verb in (
        ("POST", ":cancel"), ("POST", ":retry"), ("POST", ":purge"), ("DELETE", ""))} == {"gone"}
    assert alice.get(f"/v1/artifacts/{artifact['id']}").status_code in (404, 410)
    assert [api.get(f"/v1/jobs/{job['id']}").status_code for api in (reader, house.admin, bob)] == [410, 410, 404]
    assert alice.get(f"/v1/jobs?ids={job['id']}").json()["jobs"] == []
    with database(house) as opened:
        left = opened.read().one("SELECT * FROM jobs WHERE id = :id", id=int(job["id"]))
        assert "precious" not in str(left) and opened.read().value("SELECT count(*) FROM logs WHERE job_id = :id", id=int(job["id"])) == 0
    note = alice.finished(alice.submit("test.note", text="kept")["id"])
    alice.post(f"/v1/jobs/{note['id']}:purge")
    assert alice.get(note["resource"]).json()["length"] == 4


@rule("6.6")
def test_whoever_waits_for_a_purged_job_is_told(house):
    api = house.session("purger")
    job = in_state(api, "succeeded")
    etag = api.get(f"/v1/jobs/{job['id']}").headers["ETag"]
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(house.session("purger").get, f"/v1/jobs/{job['id']}?wait=20", headers={"If-None-Match": etag})
        time.sleep(0.3)
        api.post(f"/v1/jobs/{job['id']}:purge")
        assert held.result(10).status_code == 410


# If-Match


@pytest.mark.parametrize(("verb", "state", "status"), [
    row("6.10", ("POST", ":cancel"), "queued", 200), row("6.10", ("DELETE", ""), "queued", 200),
    row("6.10", ("POST", ":retry"), "failed", 202), row("6.10", ("POST", ":purge"), "succeeded", 204)])
def test_if_match(alice, verb, state, status):
    for header, expected in (('"1-job1"', 412), ("W/{}", 412), ("nonsense", 412), ('"x", {}', status)):
        job = in_state(alice, state)
        before = alice.get(f"/v1/jobs/{job['id']}")
        answer = alice.request(verb[0], f"/v1/jobs/{job['id']}{verb[1]}", headers={"If-Match": header.format(before.headers["ETag"])})
        assert answer.status_code == expected
        if expected == 412:
            assert slug(answer) == "precondition-failed" and alice.get(f"/v1/jobs/{job['id']}").content == before.content
        end(alice, job)
    any_version = in_state(alice, state)
    assert alice.request(verb[0], f"/v1/jobs/{any_version['id']}{verb[1]}", headers={"If-Match": "*"}).status_code == status


# In bulk


def bulk(api, verb, **body):
    answer = api.post(f"/v1/jobs:{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def counts(answer) -> tuple:
    return tuple(answer["counts"][name] for name in ("matched", "done", "refused"))


@rule("6.7", "6.8")
def test_bulk_by_filter(house):
    api = house.session("bulk")
    jobs = [api.submit("test.parked", {"tags": ["a"] if number < 3 else ["b"]}) for number in range(5)]
    dry = bulk(api, "cancel", tag="a", dryRun=True)
    assert (dry["dryRun"], counts(dry), dry["refused"], dry["next"]) == (True, (3, 3, 0), [], None)
    assert [api.job(job["id"])["status"] for job in jobs] == ["queued"] * 5
    assert counts(bulk(api, "cancel", tag="a", status=["queued", "running"])) == (3, 3, 0)
    assert [api.job(job["id"])["status"] for job in jobs] == ["cancelled"] * 3 + ["queued"] * 2
    done = bulk(api, "purge", **{"all": True})
    assert counts(done) == (5, 3, 2)
    assert {(each["id"], each["reason"]) for each in done["refused"]} == {(job["id"], "illegal-transition") for job in jobs[3:]}
    assert all("queued" in each["detail"] for each in done["refused"])
    assert counts(bulk(api, "cancel", createdBefore="2020-01-01T00:00:00Z")) == (0, 0, 0)
    assert counts(bulk(api, "cancel", type="test.parked")) == (2, 2, 0)


@rule("6.7", "6.8", "8.7")
def test_bulk_by_ids(house, alice, bob):
    mine, foreign, purged = in_state(alice, "failed"), in_state(bob, "failed"), in_state(alice, "succeeded")
    fine = in_state(alice, "succeeded")
    alice.post(f"/v1/jobs/{purged['id']}:purge")
    done = bulk(alice, "retry", ids=[mine["id"], int(foreign["id"]), purged["id"], "999999999", fine["id"]])
    assert counts(done) == (5, 1, 4)
    assert {each["id"]: each["reason"] for each in done["refused"]} == {
        foreign["id"]: "not-found", "999999999": "not-found", purged["id"]: "gone", fine["id"]: "illegal-transition"}
    assert list(done["retried"]) == [mine["id"]]
    made = alice.finished(done["retried"][mine["id"]])
    assert made["retryOf"] == mine["id"]
    assert counts(bulk(house.admin, "purge", ids=[mine["id"], foreign["id"]])) == (2, 2, 0)


@pytest.mark.parametrize(("body", "status", "kind"), [
    row("6.7", {}, 400, "empty-filter"), row("6.7", {"dryRun": True}, 400, "empty-filter"), row("6.7", {"all": False}, 400, "empty-filter"),
    row("6.7", {"all": True, "tag": "a"}, 422, "invalid-payload"), row("6.7", {"ids": []}, 422, "invalid-payload"),
    row("6.7", {"ids": ["x"]}, 422, "invalid-payload"), row("6.7", {"status": "done"}, 422, "invalid-payload"),
    row("6.7", {"tag": [5.5]}, 422, "invalid-payload"), row("6.7", {"owner": None}, 422, "invalid-payload"),
    row("6.7", {"filter": {}}, 422, "invalid-payload"), row("6.7", {"all": True, "cursor": "x"}, 400, "bad-cursor"),
    row("6.7", {"createdBefore": "yesterday"}, 422, "invalid-payload")])
def test_unusable_bulk_requests(house, body, status, kind):
    api = house.session("untouched")
    job = in_state(api, "queued")
    answer = api.post("/v1/jobs:cancel", json=body)
    assert (answer.status_code, slug(answer)) == (status, kind) and api.job(job["id"]) == job
    end(api, job)


@rule("6.9")
def test_a_bulk_request_is_bounded(house):
    api = house.session("thousands")
    accept_many(house, "thousands", 1150)
    first = bulk(api, "cancel", **{"all": True})
    assert counts(first) == (1000, 1000, 0) and first["next"]
    second = bulk(api, "cancel", **{"all": True, "cursor": first["next"]})
    assert counts(second) == (150, 150, 0) and second["next"] is None
    assert api.get("/v1/jobs?status=queued").json()["jobs"] == []
    assert slug(api.post("/v1/jobs:purge", json={"all": True, "cursor": first["next"]})) == "bad-cursor"


@rule("6.9", "6.5")
def test_a_bulk_retry_can_be_repeated(house):
    api = house.session("repeater")
    jobs = [in_state(api, "failed") for _ in range(3)]
    ids = [job["id"] for job in jobs]
    answers = [api.post("/v1/jobs:retry", json={"ids": ids}, headers={"Idempotency-Key": "k"}).json() for _ in range(2)]
    assert answers[0] == answers[1] and counts(answers[0]) == (3, 3, 0)
    assert len(api.get("/v1/jobs?limit=200").json()["jobs"]) == 6
    wait_for(lambda: not api.get("/v1/jobs?status=queued,running").json()["jobs"])


@rule("6.2")
def test_nothing_of_this_file_still_runs(house, alice):
    wait_for(lambda: not alice.get("/v1/jobs?status=running").json()["jobs"])
    assert descendants(house.process.pid)
