"""What is particular to Azure's dialect, by plain HTTP."""

import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from jobs import clock
from tests.stack import wait_for
from tests.web.making import end, in_state


def submit(api, body=None, type="demo.drill", **query):
    answer = api.post(f"/api/{type}", json={"seconds": 0} if body is None else body, params=query)
    assert answer.status_code == 202, answer.text
    return answer


def status_of(api, job, **query):
    return api.get(f"/api/RequestStatus/{job['id']}", params=query, allow_redirects=False)


def ended(api, body, type="demo.drill"):
    return api.finished(submit(api, body, type).json()["id"])


def test_submitting_tells_both_ways_to_follow(alice, speaker):
    answer = submit(alice, {"seconds": 0}, OnPending="Accepted", OnComplete="stream")
    body = answer.json()
    assert answer.headers["Location"] == f"{speaker.url}/api/RequestStatus/{body['id']}?OnPending=Accepted&OnComplete=stream"
    assert answer.headers["Operation-Location"] == answer.headers["Azure-AsyncOperation"]
    assert answer.headers["Operation-Location"] == f"{speaker.url}/api/operations/{body['id']}"
    assert int(answer.headers["Retry-After"]) >= 1
    assert body == {"id": body["id"], "status": "NotStarted", "createdAt": body["createdAt"],
                    "lastUpdatedAt": body["createdAt"], "percentComplete": 0,
                    "Location": f"{speaker.url}/api/RequestStatus/{body['id']}"}


def test_a_replay_answers_the_first_body_whatever_became_of_the_job(alice):
    answers = []
    for _ in range(2):
        answers.append(alice.post("/api/demo.drill?signed=true", json={"seconds": 0}, headers={"Idempotency-Key": "again"}))
        alice.finished(answers[0].json()["id"])
    assert answers[0].content == answers[1].content and answers[0].headers["Location"] == answers[1].headers["Location"]
    assert answers[1].headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("state", ["queued", "running"])
def test_while_pending_each_mode_has_its_own_answer(alice, state):
    job = in_state(alice, state)
    ok, accepted = status_of(alice, job), status_of(alice, job, OnPending="ACCEPTED", OnComplete="Stream")
    assert (ok.status_code, accepted.status_code) == (200, 202)
    assert ok.json()["status"] == accepted.json()["status"] == {"queued": "NotStarted", "running": "Running"}[state]
    assert "Location" not in ok.headers
    assert urlsplit(accepted.headers["Location"]).query == "OnPending=ACCEPTED&OnComplete=Stream"
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in (ok, accepted))
    end(alice, job)


def test_synchronous_holds_until_the_end(alice):
    body = submit(alice, {"seconds": 1}).json()
    answer = alice.get(f"/api/RequestStatus/{body['id']}?OnPending=Synchronous", allow_redirects=False)
    assert answer.status_code == 303
    assert alice.get(answer.headers["Location"]).json() == {"value": None}
    failing = submit(alice, {"seconds": 0.5, "fail": "as asked"}).json()
    assert status_of(alice, failing, OnPending="synchronous").status_code == 422
    job, answers = in_state(alice, "queued"), []
    waiting = threading.Thread(target=lambda: answers.append(status_of(alice, job, OnPending="Synchronous")))
    waiting.start()
    end(alice, job)
    waiting.join(60)
    assert (answers[0].status_code, answers[0].json()["status"]) == (200, "Canceled")


def test_synchronous_costs_no_thread(alice):
    job = in_state(alice, "queued")
    with ThreadPoolExecutor(20) as pool:  # more than the server has threads
        held = [pool.submit(status_of, alice, job, OnPending="Synchronous") for _ in range(20)]
        wait_for(lambda: sum(each.running() for each in held) == 20)
        assert alice.get("/livez").ok and not any(each.done() for each in held)
        end(alice, job)
        assert {each.result().json()["status"] for each in held} == {"Canceled"}


def test_a_pending_answer_asks_for_five_seconds_unless_the_operator_says_otherwise(alice, server):
    dave = server.session("dave")
    job = dave.post("/api/demo.drill", json={"notBefore": clock.after(86400)})
    assert int(job.headers["Retry-After"]) == 3600  # it is known that nothing happens before
    dave.delete(f"/v1/jobs/{job.json()['id']}")
    for api, seconds in ((dave, "5"), (alice, "1")):
        answer = submit(api, {"seconds": 600, "steps": 1, "unknownLength": True})
        assert answer.headers["Retry-After"] == api.get(answer.headers["Location"]).headers["Retry-After"] == seconds
        api.delete(f"/v1/jobs/{answer.json()['id']}")


def test_success_leads_to_the_resource_the_file_or_the_result(alice, speaker):
    note, file, bare = (ended(alice, {"text": "x"}, "test.note"), ended(alice, {"seconds": 0, "artifact": "ä.txt"}),
                        ended(alice, {"seconds": 0, "value": [1]}))
    to_note, to_file, to_result = (status_of(alice, job) for job in (note, file, bare))
    assert [answer.status_code for answer in (to_note, to_file, to_result)] == [303] * 3
    assert to_note.headers["Location"] == speaker.url + note["resource"]
    for answer, content in ((to_file, f"Left by drill {file['id']}.\n"), (to_result, '{"value":[1]}')):
        location = answer.headers["Location"]
        for headers in ({}, dict(alice.headers), {"Authorization": "Bearer acc_nobody"}):
            got = requests.get(location, headers=headers, timeout=60)
            assert (got.status_code, got.text) == (200, content), got.text
    assert status_of(alice, file).headers["Location"] != to_file.headers["Location"]  # signed afresh
    assert all("Retry-After" not in answer.headers and "Expires" in answer.headers for answer in (to_note, to_file))


def test_stream_gives_the_one_file_with_ranges_or_the_bare_result(alice):
    file, bare = ended(alice, {"seconds": 0, "artifact": "a.txt"}), ended(alice, {"seconds": 0, "value": {"status": 404}})
    path = f"/api/RequestStatus/{file['id']}?OnComplete=Stream"
    assert alice.get(path).text == f"Left by drill {file['id']}.\n"
    part = alice.get(path, headers={"Range": "bytes=5-6"})
    assert (part.status_code, part.text) == (206, "by")
    assert (answer := status_of(alice, bare, OnComplete="Stream")).status_code == 200
    assert answer.json() == {"value": {"status": 404}}
    null = ended(alice, {"value": None}, "test.quick")
    assert status_of(alice, null, OnComplete="Stream").status_code == 204


@pytest.mark.parametrize("mode", ["OK", "Accepted", "Synchronous"])
def test_failure_is_the_problem_with_the_members_of_the_status(alice, mode):
    for asked, status in ((422, 422), (400, 400), (429, 409), (503, 409), (500, 409)):
        job = ended(alice, {"seconds": 0, "fail": "as asked", "failStatus": asked})
        answer = status_of(alice, job, OnPending=mode)
        problem = answer.json()
        assert answer.status_code == problem["status"] == status
        assert answer.headers["Content-Type"] == "application/problem+json" and "Retry-After" not in answer.headers
        assert {"id", "createdAt", "lastUpdatedAt", "Location"} <= set(problem) and "Expires" in answer.headers
        assert (problem["error"]["code"], problem["error"]["message"]) == ("drill-failed", "as asked")
    monitor = alice.get(f"/api/operations/{job['id']}").json()
    assert monitor["status"] == "Failed" and "status" not in monitor["error"] and "result" not in monitor


def test_cancelled_is_a_status_or_where_accepted_was_asked_for_a_conflict(alice):
    job = in_state(alice, "cancelled")
    assert [(answer.status_code, answer.json()["status"]) for answer in (
        status_of(alice, job, OnPending=mode) for mode in ("OK", "Synchronous", "Accepted"))] == [
        (200, "Canceled"), (200, "Canceled"), (409, 409)]
    assert alice.get(f"/api/operations/{job['id']}").json()["status"] == "Canceled"


@pytest.mark.parametrize("method, path", [("DELETE", "/api/RequestStatus/{}"), ("POST", "/api/operations/{}:cancel")])
def test_cancelling(alice, method, path):
    for state in ("queued", "running"):
        job = in_state(alice, state)
        answer = alice.request(method, path.format(job["id"]))
        assert answer.status_code == 202 and answer.json()["id"] == job["id"]
        assert alice.finished(job["id"])["status"] == "cancelled"
    again = alice.request(method, path.format(job["id"]))
    assert again.status_code == 409 and "cancelled" in again.json()["error"]["message"]


def test_a_signed_location_shows_this_one_status_to_whoever_holds_it(alice):
    waiting = in_state(alice, "queued")
    location = submit(alice, {"text": "x", "fate": "hold"}, "test.note", signed="true").headers["Location"]
    job = urlsplit(location).path.rpartition("/")[2]
    assert requests.get(location, timeout=60).json()["id"] == job
    assert requests.get(location, headers={"Authorization": "Bearer acc_nobody"}, timeout=60).status_code == 200
    other = location.replace(f"/RequestStatus/{job}", f"/RequestStatus/{waiting['id']}")
    for wrong in (other, location[:-2] + "AA", location.replace("/RequestStatus/", "/operations/"),
                  location.split("?")[0], location.replace("api/RequestStatus", "v1/jobs")):
        assert requests.get(wrong, timeout=60).status_code == 401
    assert requests.delete(location, timeout=60).status_code == 401
    held = requests.get(location + "&OnPending=Accepted", allow_redirects=False, timeout=60)
    assert held.status_code == 202 and parse_qs(urlsplit(held.headers["Location"]).query)["signature"]
    alice.delete(f"/v1/jobs/{job}")
    alice.delete(f"/v1/jobs/{waiting['id']}")


def test_a_signed_follower_waits_without_a_key_and_reaches_the_resource(alice):
    location = submit(alice, {"text": "x"}, "test.note", signed="1", OnPending="Synchronous").headers["Location"]
    assert requests.get(location, timeout=30).json()["text"] == "x"
    slow = submit(alice, {"seconds": 4}, signed="1", OnPending="Synchronous").headers["Location"]
    assert requests.get(slow, timeout=60).json() == {"value": None}  # outlives several checks for revoked keys


def test_what_is_done_can_be_asked_for_conditionally(alice):
    path = f"/api/operations/{ended(alice, {'seconds': 0})['id']}"
    first = alice.get(path)
    assert alice.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
