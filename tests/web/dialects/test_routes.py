"""The routes of all dialects on the running server: one job seen in each, and errors in each one's own shape."""

import pytest

from tests.web.making import STATES, end, in_state

VIEWS = {"google": "/v1/operations/{}", "google, under a parent": "/v1/projects/7/operations/{}",
         "snake": "/operations/op-{}", "azure": "/api/operations/{}", "azure, followed": "/api/RequestStatus/{}"}
WORDS = {  # as the table of docs/dialects.md has it
    "queued": (False, "pending", "NotStarted"), "running": (False, "running", "Running"),
    "succeeded": (True, "succeeded", "Succeeded"), "partialSuccess": (True, "succeeded", "Succeeded"),
    "failed": (True, "failed", "Failed"), "cancelled": (True, "canceled", "Canceled")}
DEMO = "/v1/demo.drill:run", "/v1/projects/p/locations/l/demo.drill:run", "/api/demo.drill"
NOTES = "/v1/notes:note", "/v1/test.note:run", "/notes", "/api/test.note"


@pytest.mark.parametrize("state", STATES)
def test_one_job_is_followed_in_all_dialects_at_once(alice, state):
    job = in_state(alice, state)
    operation, snake, azure = (alice.get(VIEWS[name].format(job["id"])) for name in ("google", "snake", "azure"))
    assert operation.status_code == snake.status_code == azure.status_code == 200
    assert (operation.json()["done"], snake.json()["status"], azure.json()["status"]) == WORDS[state]
    for answer in (operation, snake, azure):
        assert ("Retry-After" in answer.headers) == (not WORDS[state][0]) == ("Expires" not in answer.headers)
        again = alice.get(answer.url, headers={"If-None-Match": answer.headers["ETag"]})
        assert state == "running" or (again.status_code, again.content) == (304, b"")
    end(alice, job)


@pytest.mark.parametrize("path", [*DEMO, *NOTES])
def test_a_job_is_submitted_once_for_each_idempotency_key(alice, path):
    body = {"text": "x", "tags": ["a"]} if path in NOTES else {"seconds": 0, "tags": ["a"]}
    headers = {"Idempotency-Key": f"key{NOTES.index(path) if path in NOTES else DEMO.index(path)}"}
    answers = [alice.post(path, json=body, headers=headers) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {200 if path.startswith("/v1") else 202}
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers] == [None, "true"]
    ids = {(answer.json().get("name") or answer.json()["id"]).rpartition("/")[2].removeprefix("op-") for answer in answers}
    assert len(ids) == 1
    job = alice.finished(ids.pop())
    assert (job["status"], job["tags"], bool(job["resource"])) == ("succeeded", ["a"], path in NOTES)
    other = alice.post(path, json=body | {"tags": []}, headers=headers)
    assert other.status_code == (400 if path.startswith("/v1") else 422) and "error" in other.json()


def test_the_payload_may_stand_in_a_member_of_its_own_as_natively(alice):
    answer = alice.post("/api/demo.drill", json={"payload": {"seconds": 0, "value": 3}, "priority": "high"})
    job = alice.finished(answer.json()["id"])
    assert (job["result"], job["priority"]) == ({"value": 3}, "high")
    wrong = alice.post("/api/demo.drill", json={"payload": {"seconds": "x"}})
    assert wrong.json()["errors"][0]["pointer"] == "#/payload/seconds"


def shaped(dialect: str, status: int, slug: str) -> tuple:
    """(HTTP status, error.code, error.status) of a problem in a dialect."""
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
             405: "INVALID_ARGUMENT", 410: "NOT_FOUND", 415: "INVALID_ARGUMENT", 422: "INVALID_ARGUMENT"}
    if dialect == "google":
        status = {410: 404, 415: 400, 422: 400}.get(status, status)
        return status, status, names[status]
    return status, slug.replace("-", "_").upper() if dialect == "snake" else slug, names[status]


MALFORMED = [
    ("google", "GET", "/v1/operations?filter=name%3D1", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations?filter=done%3Dmaybe", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations?filter=metadata.status%3D%22odd%22", 400, "bad-parameter"),
    ("google", "GET", "/v1/p/operations?filter=done%3Dtrue+done%3Dtrue", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations?filter=done%3Dtrue+AND", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations?pageSize=-1", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations?pageSize=many", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations?pageToken=odd", 400, "bad-cursor"),
    ("google", "GET", "/v1/operations?page=1", 400, "bad-parameter"),
    ("google", "GET", "/v1/operations/999999", 404, "not-found"),
    ("google", "GET", "/v1/projects/p/operations/abc", 404, "not-found"),
    ("google", "POST", "/v1/operations/999999:cancel", 404, "not-found"),
    ("google", "POST", "/v1/operations/999999:undo", 404, "not-found"),
    ("google", "DELETE", "/v1/operations/999999", 404, "not-found"),
    ("google", "POST", "/v1/videos:undo", 404, "not-found"),
    ("google", "POST", "/v1/p/nothing:run", 404, "not-found"),
    ("google", "POST", "/v1/demo.drill:run", 415, "unsupported-media-type"),
    ("google", "PUT", "/v1/operations/1", 405, "method-not-allowed"),
    ("snake", "GET", "/operations?status=done", 400, "bad-parameter"),
    ("snake", "GET", "/operations?page_size=-1", 400, "bad-parameter"),
    ("snake", "GET", "/operations?page_token=odd", 400, "bad-cursor"),
    ("snake", "GET", "/operations?pageToken=odd", 400, "bad-parameter"),
    ("snake", "GET", "/operations/op-1?wait=x", 400, "bad-parameter"),
    ("snake", "GET", "/operations/op-999999", 404, "not-found"),
    ("snake", "GET", "/operations/999999", 404, "not-found"),
    ("snake", "POST", "/operations/op-999999/cancel", 404, "not-found"),
    ("snake", "POST", "/notes", 415, "unsupported-media-type"),
    ("snake", "DELETE", "/operations/op-1", 405, "method-not-allowed"),
    ("azure", "GET", "/api/RequestStatus/999999?OnPending=Odd", 400, "bad-parameter"),
    ("azure", "GET", "/api/RequestStatus/999999?OnComplete=", 400, "bad-parameter"),
    ("azure", "GET", "/api/RequestStatus/999999?onpending=OK", 400, "bad-parameter"),
    ("azure", "POST", "/api/demo.drill?OnPending=Odd", 400, "bad-parameter"),
    ("azure", "GET", "/api/RequestStatus/999999", 404, "not-found"),
    ("azure", "GET", "/api/RequestStatus/abc", 404, "not-found"),
    ("azure", "DELETE", "/api/RequestStatus/999999", 404, "not-found"),
    ("azure", "GET", "/api/operations/999999", 404, "not-found"),
    ("azure", "POST", "/api/operations/999999:cancel", 404, "not-found"),
    ("azure", "POST", "/api/nothing", 404, "not-found"),
    ("azure", "POST", "/api/demo.drill", 415, "unsupported-media-type"),
    ("azure", "PATCH", "/api/RequestStatus/1", 405, "method-not-allowed"),
]


def check(answer, dialect, status, slug):
    problem = answer.json()
    error = problem["error"]
    assert (answer.status_code, error["code"], error["status"]) == shaped(dialect, status, slug), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json" and error["message"]
    assert (problem["status"], problem["type"].rpartition("/")[2]) == (answer.status_code, slug)


@pytest.mark.parametrize("dialect, method, path, status, slug", MALFORMED)
def test_malformed_input_is_answered_in_the_shape_of_its_dialect(alice, dialect, method, path, status, slug):
    body = {"data": "a=b", "headers": {"Content-Type": "text/plain"}} if status == 415 else {}
    check(alice.request(method, path, **body), dialect, status, slug)


@pytest.mark.parametrize("view", VIEWS)
def test_a_foreign_job_looks_like_none_a_purged_one_is_gone_and_without_a_key_there_is_nothing(alice, bob, speaker, view):
    job = in_state(alice, "succeeded")
    dialect, path = view.partition(",")[0], VIEWS[view].format(job["id"])
    foreign, unknown = bob.get(path), bob.get(VIEWS[view].format(10**12))
    check(foreign, dialect, 404, "not-found")
    assert foreign.content == unknown.content
    check(bob.get(path, headers={"Authorization": None}), dialect, 401, "unauthorized")
    reader = speaker.session("rita", "read")
    assert reader.get(path, allow_redirects=False).status_code in (200, 303)
    alice.post(f"/v1/jobs/{job['id']}:purge")
    check(alice.get(path), dialect, 410, "gone")
    check(bob.get(path), dialect, 404, "not-found")


@pytest.mark.parametrize("dialect, method, path", [
    ("google", "POST", "/v1/operations/{}:cancel"), ("google", "DELETE", "/v1/operations/{}"),
    ("snake", "POST", "/operations/op-{}/cancel"), ("azure", "DELETE", "/api/RequestStatus/{}"),
    ("azure", "POST", "/api/operations/{}:cancel")])
def test_who_only_reads_changes_nothing(alice, speaker, dialect, method, path):
    job = in_state(alice, "queued")
    check(speaker.session("rita", "read").request(method, path.format(job["id"])), dialect, 403, "forbidden")
    assert alice.job(job["id"])["status"] == "queued"
    end(alice, job)


@pytest.mark.parametrize("path", [*DEMO, *NOTES])
def test_who_only_reads_submits_nothing(speaker, path):
    answer = speaker.session("rita", "read").post(path, json={})
    assert answer.status_code == 403 and answer.json()["error"]["status"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("path", ["/v1/jobs/999999", "/v1/jobs/999999:cancel", "/v1/videos/999999"])
def test_native_errors_stay_native(alice, path):
    answer = alice.request("POST" if path.endswith("cancel") else "GET", path)
    assert answer.status_code == 404 and "error" not in answer.json()


def test_a_native_submission_names_the_status_monitor(alice):
    answer = alice.post("/v1/jobs", json={"type": "demo.drill", "payload": {"seconds": 0}})
    monitor = alice.get(answer.headers["Operation-Location"])
    assert (monitor.status_code, monitor.json()["id"]) == (200, answer.json()["id"])
