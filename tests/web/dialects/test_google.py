"""What is particular to Google's dialect, by plain HTTP."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.stack import Stack
from tests.web.making import accept_many, end, in_state

OPERATION = {"name", "done", "metadata"}


def test_an_operation_is_named_as_it_was_asked_for(alice):
    posted = alice.post("/v1/projects/p/locations/l/notes:note", json={"text": "x"}).json()
    assert posted["name"].startswith("projects/p/locations/l/operations/") and set(posted) == OPERATION
    number = posted["name"].rpartition("/")[2]
    for parent in ("", "projects/7/", "any/thing/at/all/"):
        assert alice.get(f"/v1/{parent}operations/{number}").json()["name"] == f"{parent}operations/{number}"
    listed = alice.get("/v1/folders/f/operations?pageSize=1").json()["operations"]
    assert listed[0]["name"].startswith("folders/f/operations/")


def test_cancel_is_best_effort_and_keeps_the_record(alice):
    for state in ("running", "queued", "succeeded", "cancelled"):
        job = in_state(alice, state)
        answer = alice.post(f"/v1/operations/{job['id']}:cancel", headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (200, {})
        ended = alice.finished(job["id"])
        operation = alice.get(f"/v1/operations/{job['id']}").json()
        assert operation["done"] and ("response" in operation) == (state == "succeeded")
        assert ended["status"] == ("succeeded" if state == "succeeded" else "cancelled")


def test_delete_forgets_what_is_done_and_refuses_what_is_active(alice):
    job = in_state(alice, "running")
    refused = alice.delete(f"/v1/operations/{job['id']}")
    assert refused.status_code == 400 and refused.json()["error"]["status"] == "FAILED_PRECONDITION"
    assert alice.job(job["id"])["status"] == "running"
    end(alice, job)
    alice.finished(job["id"])
    deleted = alice.delete(f"/v1/operations/{job['id']}")
    assert (deleted.status_code, deleted.json()) == (200, {})
    assert alice.get(f"/v1/operations/{job['id']}").status_code == alice.delete(deleted.url).status_code == 404
    assert alice.get(f"/v1/jobs/{job['id']}").status_code == 410


@pytest.mark.parametrize("path", ["/v1/artifacts/6:x", "/v1/artifacts/6:%25", "/v1/nothing:x", "/v1/jobs/1:no-such-verb"])
def test_where_no_verb_is_there_is_nothing_for_any_method(alice, path):
    assert [alice.request(method, path).status_code for method in ("GET", "PUT", "DELETE", "POST")] == [404] * 4
    assert alice.get("/v1/jobs/1:cancel").status_code == 405       # where one is, there is something


def test_wait_answers_the_end_or_how_things_stand_never_an_error(alice):
    parked = in_state(alice, "queued")
    early = alice.post(f"/v1/operations/{parked['id']}:wait", json={"timeout": "0.2s"})
    assert (early.status_code, early.json()["done"]) == (200, False)
    end(alice, parked)
    path = alice.post("/v1/demo.drill:run", json={"seconds": 1}).json()["name"]
    began = time.monotonic()
    late = alice.post(f"/v1/{path}:wait?timeout=30s")
    assert (late.status_code, late.json()["done"]) == (200, True) and time.monotonic() - began < 25
    assert alice.post(f"/v1/{path}:wait", json={"name": path}).json()["done"]
    for bad in ("30", "-1s", 30, "s", ""):
        answer = alice.post(f"/v1/{path}:wait", json={"timeout": bad})
        assert answer.status_code == 400 and answer.json()["error"]["status"] == "INVALID_ARGUMENT"


def test_filters_and_pages(speaker):
    carol = speaker.session("carol")
    ids = [str(job) for job in accept_many(speaker, "carol", 7)]
    done = [in_state(carol, state)["id"] for state in ("succeeded", "failed", "partialSuccess")]

    def numbers(filter, **more):
        answer = carol.get("/v1/operations", params={"filter": filter} | more)
        assert answer.status_code == 200, answer.text
        return [each["name"].rpartition("/")[2] for each in answer.json()["operations"]], answer.json()["nextPageToken"]

    newest_first = [*reversed(done), *reversed(ids)]
    assert numbers("") == (newest_first, "")
    assert numbers("done=true")[0] == newest_first[:3] and numbers(" done = false ")[0] == newest_first[3:]
    assert numbers('metadata.status="failed" OR metadata.value.status="succeeded"')[0] == [done[1], done[0]]
    assert numbers('metadata.type="test.parked" AND done=true')[0] == []
    either = 'done=false AND metadata.type="test.parked" OR metadata.status="failed"'  # done=false AND (type OR status)
    assert numbers(either)[0] == newest_first[3:]
    page, token = numbers("done=false", pageSize=4)
    assert page == newest_first[3:7]
    assert numbers("done=false", pageSize=4, pageToken=token) == (newest_first[7:], "")
    assert carol.get("/v1/operations", params={"filter": "done=true", "pageToken": token}).status_code == 400
    assert len(numbers("", pageSize=0)[0]) == len(numbers("", pageSize=10**6)[0]) == 10


@pytest.mark.parametrize("value", [[1, "two", None], 2**60 + 1, None, "text", True, {"status": 500, "done": False}])
def test_any_result_is_a_response(alice, value):
    path = alice.post("/v1/test.quick:run", json={"value": value}).json()["name"]
    response = alice.post(f"/v1/{path}:wait").json()["response"]
    kind = "Struct" if isinstance(value, dict) else "Value"
    assert response == {"@type": f"type.googleapis.com/google.protobuf.{kind}", "value": value}


def test_lists_hold_whole_operations_even_when_their_results_are_big(speaker):
    dora = speaker.session("dora")
    job = dora.finished(dora.submit("test.big", size=50_000)["id"])
    assert dora.get("/v1/jobs").json()["jobs"][0]["truncated"]
    assert len(dora.get("/v1/operations").json()["operations"][0]["response"]["value"]["filler"]) == 50_000
    assert len(dora.get("/operations").json()["operations"][0]["result"]["filler"]) == 50_000
    assert dora.get("/operations").json()["operations"][0]["id"] == f"op-{job['id']}"


def test_over_the_limit_polls_come_late_and_all_else_is_refused(tmp_path):
    with Stack(tmp_path, rate_limit=120, workers=1) as stack:
        alice = stack.session("alice")
        path = f"/v1/operations/{alice.submit('demo.drill', seconds=0)['id']}"
        while alice.get("/v1/jobs?limit=1").status_code != 429:
            pass
        began = time.monotonic()
        answers = [alice.get(path).status_code for _ in range(6)]
        assert answers == [200] * 6 and 0.5 < time.monotonic() - began
        for other in ("/v1/jobs?limit=1", path.replace("/v1/operations/", "/operations/op-")):
            assert 429 in [alice.get(other).status_code for _ in range(20)]
        with ThreadPoolExecutor(40) as pool:
            found = set(pool.map(lambda _: status_within(alice, path, 3), range(40)))
        assert found == {200, 429, "late"}  # how much may be late is bounded, too


def status_within(api, path, seconds):
    try:
        return requests.get(api.base + path, headers=api.headers, timeout=seconds).status_code
    except requests.ReadTimeout:
        return "late"
