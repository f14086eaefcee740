"""The operations of the other dialects: one row each, and those by which each job type is submitted."""

from typing import Any

from jobs.web.dialects import azure, google, snake
from jobs.web.openapi.operations import IF_NONE_MATCH, KEY, WAIT, Operation
from jobs.web.openapi.shapes import json_body, query
from jobs.work.job_type import JobType

_GOOGLE, _SNAKE, _AZURE = "Google (AIP-151)", "Snake case", "Azure"
_READ = (401, 404, 410, 429)
_STEER = (400, 401, 403, 404, 409, 410, 415, 429, 503, 507)
_SUBMIT = (400, 401, 403, 409, 410, 413, 415, 422, 424, 429, 503, 507)
_FATES = (409, 413, 415, 422, 424)  # of a job that failed, where its status is answered by HTTP's
_ON_PENDING = query("OnPending", description="OK, Accepted (202 while pending) or Synchronous (held up to 50 s).")
_ON_COMPLETE = query("OnComplete", description="Redirect (303 to the result) or Stream (the result itself).")
_TEXT = {"type": "string"}
_URL, _INSTANT = ({"type": "string", "format": form} for form in ("uri", "date-time"))


SCHEMAS = {
    "Operation": {
        "type": "object", "description": "google.longrunning.Operation", "required": ["name", "done", "metadata"],
        "additionalProperties": False, "properties": {
            "name": _TEXT, "done": {"type": "boolean"}, "metadata": {"type": "object"},
            "response": {"type": "object", "required": ["@type"]},
            "error": {"type": "object", "required": ["code", "message", "details"]}}},
    "Operations": {"type": "object", "properties": {
        "operations": {"type": "array", "items": {"$ref": "#/components/schemas/Operation"}}, "nextPageToken": _TEXT}},
    "SnakeOperation": {
        "type": "object", "required": ["id", "status", "done", "created_at", "metadata"], "properties": {
            "id": {"type": "string", "pattern": "^op-[1-9][0-9]*$"},
            "status": {"enum": list(dict.fromkeys(snake.STATUSES.values()))}, "done": {"type": "boolean"},
            "created_at": _INSTANT, "completed_at": _INSTANT, "metadata": {"type": "object"}, "result": {},
            "error": {"type": "object", "properties": {"code": _TEXT, "message": _TEXT}}}},
    "SnakeOperations": {"type": "object", "properties": {
        "operations": {"type": "array", "items": {"$ref": "#/components/schemas/SnakeOperation"}},
        "next_page_token": {"type": ["string", "null"]}}},
    "RequestStatus": {
        "type": "object", "required": ["id", "status", "createdAt", "lastUpdatedAt", "Location"], "properties": {
            "id": _TEXT, "status": {"enum": list(dict.fromkeys(azure.STATUSES.values()))}, "createdAt": _INSTANT,
            "lastUpdatedAt": _INSTANT, "percentComplete": {"type": "integer"}, "Location": _URL,
            "error": {"type": "object", "properties": {"code": _TEXT, "message": _TEXT}}, "result": {},
            "resourceLocation": _URL}},
}

OPERATIONS = (
    Operation("get", "/v1/operations", "listOperations", "Operations, under any parent", _GOOGLE, {200: "Operations"},
              (400, 401, 429), (query("filter"), query("pageSize", "integer"), query("pageToken"))),
    Operation("get", "/v1/operations/{id}", "getOperation", "An Operation, under any parent", _GOOGLE,
              {200: "Operation", 304: None}, _READ, (IF_NONE_MATCH,)),
    Operation("post", "/v1/operations/{id}:cancel", "cancelOperation", "Ask to stop", _GOOGLE, {200: "Anything"},
              _STEER),
    Operation("post", "/v1/operations/{id}:wait", "waitOperation", "Wait until it is done", _GOOGLE, {200: "Operation"},
              (400, *_READ, 415), (query("timeout"),),
              json_body({"type": "object", "properties": {"timeout": _TEXT}}, required=False)),
    Operation("delete", "/v1/operations/{id}", "deleteOperation", "Forget one that is done", _GOOGLE, {200: "Anything"},
              _STEER),
    Operation("get", "/operations", "listSnakeOperations", "Operations", _SNAKE, {200: "SnakeOperations"},
              (400, 401, 429), (query("status"), query("page_size", "integer"), query("page_token"))),
    Operation("get", "/operations/op-{id}", "getSnakeOperation", "An operation", _SNAKE,
              {200: "SnakeOperation", 304: None}, _READ, (WAIT, IF_NONE_MATCH)),
    Operation("post", "/operations/op-{id}/cancel", "cancelSnakeOperation", "Cancel", _SNAKE,
              {200: "SnakeOperation"}, _STEER),
    Operation("get", "/api/RequestStatus/{id}", "getRequestStatus", "Follow a request to its result", _AZURE,
              {200: "RequestStatus", 202: "RequestStatus", 204: None, 206: "application/octet-stream", 303: None,
               304: None},
              (*_READ, *_FATES), (_ON_PENDING, _ON_COMPLETE, query("signature", description="In place of a key."))),
    Operation("delete", "/api/RequestStatus/{id}", "cancelRequest", "Cancel", _AZURE, {202: "RequestStatus"}, _STEER),
    Operation("get", "/api/operations/{id}", "getStatusMonitor", "The status monitor", _AZURE,
              {200: "RequestStatus", 304: None}, _READ, (IF_NONE_MATCH,)),
    Operation("post", "/api/operations/{id}:cancel", "cancelMonitored", "Cancel", _AZURE, {202: "RequestStatus"},
              _STEER),
)


def for_type(declared: JobType, body: dict[str, Any]) -> list[Operation]:
    """How jobs of this type are submitted in each dialect; `body` is the schema of payload and options side by side."""
    name = "".join(word.capitalize() for word in declared.name.replace("-", ".").split("."))
    given = {"parameters": (KEY,), "body": json_body(body), "calls_back": True}
    made = [Operation("post", f"/v1/{path}", f"{path.rpartition(':')[2]}{name}{number or ''}",
                      f"Submit {declared.name}", _GOOGLE, {200: "Operation"}, _SUBMIT, **given)
            for number, path in enumerate(google.submission_paths(declared))]
    if declared.collection:
        made.append(Operation("post", f"/{declared.collection}", f"operate{name}", f"Submit {declared.name}", _SNAKE,
                              {202: "SnakeOperation"}, _SUBMIT, **given))
    parameters = (KEY, _ON_PENDING, _ON_COMPLETE, query("signed", "boolean", "Let the Location be read without a key."))
    made.append(Operation("post", f"/api/{declared.name}", f"request{name}", f"Submit {declared.name}", _AZURE,
                          {202: "RequestStatus"}, _SUBMIT, **given | {"parameters": parameters}))
    return made
