"""Jobs as the database has them, one in each state that a dialect must put into words."""

import json

from jobs.sql import Row

_RUNNING = {
    "id": 501, "version": 90210, "owner": "alice", "type": "article.export", "queue": "default", "status": "running",
    "priority": 1, "progress": 42, "stage": "page 21 of 50", "eta": None, "payload": '{"articleId":7,"format":"pdf"}',
    "payload_size": 30, "tags": "[]", "callback_url": None, "timeout": 3600, "retention": 2592000, "result": None,
    "result_size": 0, "error": None, "attempt": 1, "max_attempts": 3, "next_attempt_at": None,
    "created_at": "2026-09-18T08:10:00.123Z", "updated_at": "2026-09-18T08:10:07.500Z",
    "started_at": "2026-09-18T08:10:01.000Z", "heartbeat_at": "2026-09-18T08:10:07.500Z", "finished_at": None,
    "cancel_requested_at": None, "not_before": None, "expires_at": None, "purged_at": None, "retry_of": None,
    "resource_id": 9, "resource": "/v1/article-exports/9"}
_ENDED = {"finished_at": "2026-09-18T08:10:09.999Z", "updated_at": "2026-09-18T08:10:09.999Z",
          "expires_at": "2026-10-18T08:10:09.999Z", "stage": None}


def _job(**members) -> Row:
    return Row(_RUNNING | members)


def _succeeded(result, **members) -> Row:
    text = json.dumps(result)
    return _job(**_ENDED | {"status": "succeeded", "progress": 100, "result": text, "result_size": len(text)} | members)


def _partial(result) -> Row:
    error = _problem("parts-failed", 500, "Some parts could not be done", errors=[{"part": "page 3", "detail": "is blank"}])
    return _succeeded(result, status="partialSuccess", progress=98, error=error)


def _failed(error: str, **members) -> Row:
    return _job(**_ENDED | {"status": "failed", "error": error} | members)


def _problem(slug, status, title, **members) -> str:
    return json.dumps({"type": f"/problems/{slug}", "title": title, "status": status} | members, separators=(",", ":"))


JOBS = {
    "queued": _job(status="queued", progress=0, stage=None, attempt=0, started_at=None, heartbeat_at=None),
    "running": _job(),
    "running, progress unknown": _job(progress=None, stage=None),
    "running, cancel requested": _job(cancel_requested_at="2026-09-18T08:10:07.500Z"),
    "succeeded with an object": _succeeded({"download_url": "https://x/1", "expires_at": "2026-09-19T08:10:09.000Z"}),
    "succeeded with a status of its own": _succeeded({"status": 7, "done": "no"}),
    "succeeded with a list": _succeeded([1, "two", None]),
    "succeeded with a number": _succeeded(2**60 + 1),
    "succeeded with null": _succeeded(None, resource=None),
    "partialSuccess with an object": _partial({"pages": 49}),
    "partialSuccess with a list": _partial(["1", "2"]),
    "failed": _failed(_problem("export-render-failed", 422, "The export could not be rendered", detail="Font missing.",
                               errors=[{"pointer": "#/font", "detail": "unknown"}], code="own", where="page 3")),
    "failed without detail": _failed(_problem("worker-lost", 500, "The worker was lost")),
    "timed out": _failed(_problem("job-timed-out", 504, "The job took too long"), progress=None),
    "cancelled": _job(**_ENDED, status="cancelled", cancel_requested_at="2026-09-18T08:10:08.000Z"),
}
