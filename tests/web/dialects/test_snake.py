"""What is particular to the snake-case dialect."""

import re
import threading
import time

from tests.stack import wait_for
from tests.web.making import accept_many, end, in_state

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def test_submitting_answers_202_with_the_operation_and_where_it_is(alice, speaker):
    answer = alice.post("/notes", json={"text": "x", "fate": "hold", "priority": "low"})
    operation = answer.json()
    assert answer.status_code == 202 and answer.headers["Location"] == f"{speaker.url}/operations/{operation['id']}"
    assert re.fullmatch(r"op-\d+", operation["id"]) and int(answer.headers["Retry-After"]) >= 1
    assert set(operation) == {"id", "status", "done", "created_at", "metadata"} and INSTANT.fullmatch(operation["created_at"])
    assert operation["metadata"] == {"text": "x", "fate": "hold", "operation": {
        "progress": 0, "stage": None, "updated_at": operation["created_at"], "type": "test.note"}}
    assert (operation["status"], operation["done"]) == ("pending", False)
    cancelled = alice.post(f"{answer.headers['Location']}/cancel")
    assert (cancelled.status_code, cancelled.json()["id"]) == (200, operation["id"])
    ended = wait_for(lambda: (found := alice.get(answer.headers["Location"]).json())["done"] and found)
    assert ended["error"] == {"code": "CANCELED", "message": "The job was cancelled."} and INSTANT.fullmatch(ended["completed_at"])


def test_the_end_has_a_result_or_an_error(alice):
    failed = alice.get(f"/operations/op-{in_state(alice, 'failed')['id']}").json()
    assert failed["error"] == {"code": "DRILL_FAILED", "message": "as asked"} and "result" not in failed
    partial = alice.get(f"/operations/op-{in_state(alice, 'partialSuccess')['id']}").json()
    assert partial["result"] == {"value": 2, "errors": [{"part": "a", "detail": "skipped as asked"}]}


def test_cancel_of_an_ended_one_is_a_conflict_that_says_so(alice):
    for state in ("succeeded", "failed", "cancelled", "partialSuccess"):
        answer = alice.post(f"/operations/op-{in_state(alice, state)['id']}/cancel")
        assert answer.status_code == 409 and answer.json()["error"]["code"] == "ILLEGAL_TRANSITION"
        assert state in answer.json()["error"]["message"]


def test_wait_holds_until_the_end_and_with_an_etag_until_the_next_change(alice):
    path = alice.post("/notes", json={"text": "x"}).headers["Location"]
    assert alice.get(f"{path}?wait=20").json()["status"] == "succeeded"
    job = in_state(alice, "queued")
    path = f"/operations/op-{job['id']}"
    tag, began = alice.get(path).headers["ETag"], time.monotonic()
    assert alice.get(f"{path}?wait=0.3", headers={"If-None-Match": tag}).status_code == 304
    assert time.monotonic() - began >= 0.3
    held = {}
    waiting = threading.Thread(target=lambda: held.update(alice.get(f"{path}?wait=30", headers={"If-None-Match": tag}).json()))
    waiting.start()
    end(alice, job)
    waiting.join(60)
    assert held["status"] == "canceled"


def test_a_job_that_is_purged_while_it_is_waited_for_is_gone_in_this_dialects_words(alice, speaker):
    job = in_state(alice, "succeeded")
    path = f"/operations/op-{job['id']}"
    tag = alice.get(path).headers["ETag"]
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(alice.get(f"{path}?wait=30", headers={"If-None-Match": tag})))
    waiting.start()
    time.sleep(0.2)
    alice.post(f"/v1/jobs/{job['id']}:purge")
    waiting.join(60)
    assert answers[0].status_code == 410 and answers[0].json()["error"]["code"] == "GONE"


def test_lists_are_filtered_and_paged(speaker):
    erin = speaker.session("erin")
    ids = [f"op-{job}" for job in accept_many(speaker, "erin", 5)][::-1]
    cancelled = erin.post(f"/operations/{ids[2]}/cancel").json()["id"]

    def page(**query):
        answer = erin.get("/operations", params=query).json()
        return [each["id"] for each in answer["operations"]], answer["next_page_token"]

    assert page() == (ids, None) and page(status="canceled") == ([cancelled], None)
    first, token = page(status="pending,canceled", page_size=3)
    assert first == ids[:3] and page(status="pending,canceled", page_size=3, page_token=token) == (ids[3:], None)
    assert erin.get("/operations", params={"page_token": token}).status_code == 400
    assert page(status="succeeded") == page(status="running") == ([], None)
