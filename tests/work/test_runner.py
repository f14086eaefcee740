"""From a claimed job to its outcome."""

import json

import pytest


def result(house, id):
    return json.loads(house.finished(id).result)


def test_a_drill_succeeds_with_its_value(shared):
    id = shared.submit("demo.drill", seconds=0.2, steps=4, value={"a": [1, None]}, logLines=3)
    job = shared.finished(id)
    assert (job.status, job.progress, json.loads(job.result)) == ("succeeded", 100, {"value": {"a": [1, None]}})
    assert shared.lines(id) == [f"line {number} of 3" for number in (1, 2, 3)]
    [attempt] = shared.attempts(id)
    assert (attempt.attempt, attempt.outcome, attempt.error) == (1, "succeeded", None)


def test_a_drill_fails_with_its_problem(shared):
    id = shared.submit("demo.drill", seconds=0, fail="because", failStatus=409)
    assert shared.finished(id).status == "failed"
    assert shared.error(id) == {"type": "/problems/drill-failed", "title": "The drill failed as asked", "status": 409,
                                "detail": "because"}


def test_a_drill_with_skipped_parts_is_a_partial_success(shared):
    id = shared.submit("demo.drill", seconds=0, partial=["720p", "480p"], value=1)
    assert shared.finished(id).status == "partialSuccess"
    assert [part["part"] for part in shared.error(id)["errors"]] == ["720p", "480p"]
    assert json.loads(shared.job(id).result) == {"value": 1}


def test_a_problem_is_final_and_may_be_of_a_kind_of_its_own(shared):
    id = shared.submit("test.raises", how="problem")
    assert shared.finished(id).attempt == 1
    assert shared.error(id) == {"type": "/problems/test-broken", "title": "It is broken", "status": 409, "detail": "as asked"}


@pytest.mark.parametrize(("how", "slug", "detail"), [
    ("exception", "job-raised", "ValueError: secret stack"), ("retry", "retry-requested", "not yet"),
    ("system-exit", "job-raised", "SystemExit: 3")])
def test_anything_else_is_tried_again(shared, how, slug, detail):
    id = shared.submit("test.raises", how=how)
    job = shared.finished(id)
    assert (job.status, job.attempt, json.loads(job.result)) == ("succeeded", 2, 2)
    first = shared.attempts(id)[0]
    assert first.outcome == "requeued"
    assert (json.loads(first.error)["type"], json.loads(first.error)["detail"]) == (f"/problems/{slug}", detail)
    assert "Traceback" not in first.error


def test_attempts_are_used_up(shared):
    id = shared.submit("demo.drill", seconds=0, failAttempts=9, max_attempts=1)
    assert shared.finished(id).status == "failed"
    assert shared.error(id)["detail"] == "RuntimeError: attempt 1 fails as asked"


@pytest.mark.parametrize(("how", "problem"), [("nan", "result-invalid"), ("set", "result-invalid"), ("bytes", "result-invalid"),
                                              ("surrogate", "result-invalid"), ("long", "result-too-large")])
def test_results_that_cannot_be_kept(shared, how, problem):
    id = shared.submit("test.returns", how=how)
    assert shared.finished(id).status == "failed"
    assert shared.error(id)["type"] == f"/problems/{problem}"


@pytest.mark.parametrize(("how", "text"), [("tuple", "[1,[2]]"), ("big", str(2**70)), ("none", "null")])
def test_results_that_can(shared, how, text):
    assert shared.finished(shared.submit("test.returns", how=how)).result == text


def test_a_type_that_is_gone_fails(shared):
    id = shared.submit("test.no-such-type")
    assert shared.finished(id).status == "failed"
    assert shared.error(id)["type"] == "/problems/unknown-type"


def test_a_type_whose_packages_are_missing_here_fails(shared):
    id = shared.submit("test.lacking")
    assert shared.finished(id).attempt == 1
    problem = shared.error(id)
    assert (problem["type"], problem["status"]) == ("/problems/type-unavailable", 422)
    assert "./run install sugar" in problem["detail"]


def test_a_payload_that_no_longer_fits_fails(shared):
    id = shared.submit("test.pid", surprise=1)
    assert shared.finished(id).status == "failed"
    assert shared.error(id)["type"] == "/problems/invalid-payload"


def test_the_horse_is_used_again(shared):
    first, second = (result(shared, shared.submit("test.pid"))["pid"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("how", "status"), [("problem", "failed"), ("exit", "succeeded")])
def test_the_clean_up_runs(shared, tmp_path, how, status):
    path = tmp_path / "notes"
    id = shared.submit("test.undone", how=how, path=str(path))
    assert shared.finished(id).status == status
    assert path.read_text().splitlines()[:2] == [f"do {id}:1", f"undo {id}:1"]
    assert "cleaned" in shared.lines(id)


def test_limits_of_a_type(shared, tmp_path):
    shared.start("worker")
    path = tmp_path / "notes"
    ids = [shared.submit("test.limited", path=str(path)) for _ in range(4)]
    assert {shared.finished(id).status for id in ids} == {"succeeded"}
    assert path.read_text().split() == ["in", "out"] * 4
