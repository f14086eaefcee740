"""Section 2 of docs/http.md: the states, and every verb in each of them."""

import threading
import time

import pytest

from tests.stack import wait_for
from tests.web.making import STATES, end, in_state
from tests.web.rules import row, rule

CANCEL, RETRY, PURGE, DELETE = ("POST", ":cancel"), ("POST", ":retry"), ("POST", ":purge"), ("DELETE", "")
ANSWERS = {  # state -> what cancel (and DELETE), retry and purge answer
    "queued": (200, 409, 409), "running": (202, 409, 409), "succeeded": (409, 409, 204), "failed": (409, 202, 204),
    "cancelled": (200, 202, 204), "partialSuccess": (409, 202, 204)}
PAIRS = [row("2.1 2.6 6.1 6.4 6.6", state, verb, status, id=f"{state} {verb[0]}{verb[1]}")
         for state in STATES
         for verb, status in zip((CANCEL, DELETE, RETRY, PURGE), (ANSWERS[state][0], *ANSWERS[state]), strict=True)]


def slug(answer) -> str:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.json()["type"].rpartition("/")[2]


@pytest.mark.parametrize(("state", "verb", "status"), PAIRS)
def test_every_verb_in_every_state(alice, state, verb, status):
    job = in_state(alice, state)
    before = alice.get(f"/v1/jobs/{job['id']}").content
    answer = alice.request(verb[0], f"/v1/jobs/{job['id']}{verb[1]}")
    assert answer.status_code == status
    if status == 409:
        problem = answer.json()
        assert slug(answer) == "illegal-transition" and state in problem["detail"] and problem["jobStatus"] == state
        if state not in ("running",):
            assert alice.get(f"/v1/jobs/{job['id']}").content == before
    elif verb == RETRY:
        made = answer.json()
        assert (made["retryOf"], made["status"]) == (job["id"], "queued")
        end(alice, made)
    elif verb == PURGE:
        assert alice.get(f"/v1/jobs/{job['id']}").status_code == 410
    else:
        after = answer.json()
        assert after["id"] == job["id"]
        assert (after["status"] == "cancelled") if status == 200 else after["cancelRequestedAt"]
        assert alice.finished(job["id"])["status"] == "cancelled"
    end(alice, job)


@rule("2.5")
def test_a_terminal_state_is_final(alice):
    """Whoever comes second changes nothing: verbs, and a worker that settles once more."""
    for state in ("succeeded", "failed", "partialSuccess", "cancelled"):
        job = in_state(alice, state)
        before = alice.get(f"/v1/jobs/{job['id']}").content
        for verb in (CANCEL, DELETE):
            alice.request(verb[0], f"/v1/jobs/{job['id']}{verb[1]}")
        assert alice.get(f"/v1/jobs/{job['id']}").content == before


@rule("2.2", "3.2")
def test_a_job_that_nobody_starts_fails_after_its_queue_ttl(alice):
    job = alice.submit("test.parked", {"queueTtl": 1})
    done = alice.finished(job["id"])
    assert (done["status"], done["attempt"], done["startedAt"]) == ("failed", 0, None)
    assert done["error"]["type"].endswith("/problems/never-started") and done["error"]["status"] == 504


@rule("2.3", "4.20")
def test_what_raises_is_tried_again_and_fails_in_the_end(alice):
    job = alice.finished(alice.submit("demo.drill", {"maxAttempts": 2}, seconds=0, failAttempts=9)["id"])
    assert (job["status"], job["attempt"]) == ("failed", 2)
    assert job["error"]["type"].endswith("/problems/job-raised") and "attempt 2 fails as asked" in job["error"]["detail"]
    first, second = alice.get(f"/v1/jobs/{job['id']}/attempts").json()["attempts"]
    assert set(first) == {"attempt", "worker", "startedAt", "endedAt", "outcome", "error"}
    assert (first["attempt"], first["outcome"], second["outcome"]) == (1, "requeued", "failed")
    assert "attempt 1 fails as asked" in first["error"]["detail"] and first["endedAt"] <= second["startedAt"]


@rule("2.3", "3.2")
def test_a_job_that_takes_too_long_times_out(alice):
    job = alice.finished(alice.submit("demo.drill", {"timeout": 1, "maxAttempts": 1}, seconds=60)["id"])
    assert job["status"] == "failed" and job["error"]["type"].endswith("/problems/job-timed-out")


@rule("2.4")
def test_a_problem_is_final(alice):
    job = alice.finished(alice.submit("demo.drill", {"maxAttempts": 5}, seconds=0, fail="no", failStatus=424)["id"])
    assert (job["status"], job["attempt"], job["maxAttempts"]) == ("failed", 1, 5)
    assert (job["error"]["status"], job["error"]["detail"]) == (424, "no")


@rule("2.7")
def test_types_tell_how_they_are_cancelled(alice):
    types = alice.get("/v1/job-types").json()["jobTypes"]
    assert types and all(each["cancellation"] in ("best-effort", "transactional") for each in types)


@pytest.mark.parametrize(("payload", "kept"), [
    row("2.8 4.20", {"fail": "no"}, False), row("2.8 4.20", {"partial": ["a"]}, True), row("2.8 4.20", {}, True)])
def test_artifacts_stay_with_a_success_only(alice, payload, kept):
    job = alice.finished(alice.submit("demo.drill", {"maxAttempts": 1}, seconds=0, artifact="left.txt", **payload)["id"])
    if not payload.get("fail"):
        (artifact,) = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
        assert artifact["name"] == "left.txt"
    assert bool(alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]) is kept


@rule("2.5", "6.3")
def test_a_cancel_and_the_end_are_decided_once(alice):
    """Twelve short jobs, each cancelled about when it ends: what the cancel was told, the job became."""
    jobs = [alice.submit("demo.drill", seconds=0.3, steps=1) for _ in range(12)]
    told = {}

    def cancel(job, after):
        wait_for(lambda: alice.job(job["id"])["status"] != "queued")
        time.sleep(after)
        told[job["id"]] = alice.delete(f"/v1/jobs/{job['id']}")

    threads = [threading.Thread(target=cancel, args=(job, 0.2 + 0.02 * number)) for number, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for id, answer in told.items():
        job = alice.finished(id)
        attempts = alice.get(f"/v1/jobs/{id}/attempts").json()["attempts"]
        assert [each["outcome"] for each in attempts] == [job["status"]]
        if answer.status_code == 409:
            assert (job["status"], answer.json()["jobStatus"]) == ("succeeded", "succeeded")
        else:
            assert job["status"] in ("cancelled", "succeeded") and ("result" in job) == (job["status"] == "succeeded")
