"""What a job came to, in the terms that all dialects share: a result, or a fault. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from jobs.core import reads
from jobs.core.states import WITH_RESULT, Status
from jobs.db import Row

CODES = {  # google.rpc.Code by HTTP status
    400: 3, 401: 16, 403: 7, 404: 5, 409: 9, 410: 5, 412: 9, 413: 3, 415: 3, 422: 3, 424: 9, 429: 8, 501: 12, 503: 14,
    504: 4}
CANCELLED, INVALID_ARGUMENT, INTERNAL = 1, 3, 13
NAMES = {
    1: "CANCELLED", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND", 7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED", 9: "FAILED_PRECONDITION", 12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE",
    16: "UNAUTHENTICATED"}


@dataclass(frozen=True)
class Fault:
    """Why a job has no result. `problem` is its whole document; a cancelled job has none, and no `status`."""

    slug: str
    message: str
    status: int | None
    problem: dict[str, Any]


def has_result(job: Row) -> bool:
    """Whether it succeeded, at least in part."""
    return job.status in WITH_RESULT


def result(job: Row) -> Any:
    """What the handler returned. The `errors` of a partial success join an object; any other value goes beside them."""
    value = json.loads(job.result)
    if job.status != Status.PARTIAL:
        return value
    members = value if isinstance(value, dict) else {"value": value}
    return members | {"errors": json.loads(job.error).get("errors", [])}


def fault(job: Row, base_url: str = "") -> Fault | None:
    """Why it has no result; None when it has one or is active."""
    if job.status == Status.CANCELLED:
        return Fault("job-cancelled", "The job was cancelled.", None, {})
    if job.status != Status.FAILED:
        return None
    problem = json.loads(reads.absolute(job.error, base_url))
    return Fault(slug_of(problem), message_of(problem), problem["status"], problem)


def slug_of(problem: dict[str, Any]) -> str:
    """The last part of a problem's type."""
    return problem["type"].rpartition("/")[2]


def message_of(problem: dict[str, Any]) -> str:
    """What it says about this case, else what it says about its kind."""
    return problem.get("detail") or problem["title"]


def explain(problem: dict[str, Any]) -> str:
    """The same with what is wrong with each member, for clients that show no more than a message."""
    errors = "; ".join(f"{error['pointer']} {error['detail']}" for error in problem.get("errors", []))
    return f"{message_of(problem)}: {errors}" if errors else message_of(problem)


def code_of(status: int) -> int:
    """The google.rpc code of a job's fault."""
    return CODES.get(status, INTERNAL)


def canonical(status: int) -> str:
    """The canonical name of the error of an HTTP answer."""
    return NAMES[CODES.get(status, INVALID_ARGUMENT if status < 500 else INTERNAL)]


def upper_snake(slug: str) -> str:
    """export-render-failed → EXPORT_RENDER_FAILED."""
    return slug.replace("-", "_").replace(".", "_").upper()
