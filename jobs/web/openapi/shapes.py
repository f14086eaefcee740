"""The shapes of answers, as JSON Schema, and the parts that operations share."""

import re
from typing import Any

from jobs.core.audit import Act, Door
from jobs.core.states import Priority, Status


def _nullable(type_: str, **more: Any) -> dict[str, Any]:
    return {"type": [type_, "null"], **more}


_INSTANT = {"type": "string", "format": "date-time"}
_NO_INSTANT = _nullable("string", format="date-time")

PROBLEM = {
    "type": "object", "description": "RFC 9457", "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "detail": {"type": "string"}, "instance": {"type": "string"}, "requestId": _nullable("string"),
        "errors": {"type": "array", "items": {"type": "object"}}}}

JOB = {
    "type": "object",
    "required": ["id", "version", "type", "status", "progress", "stage", "eta", "priority", "tags", "callbackUrl", "timeout", "attempt",
                 "maxAttempts", "nextAttemptAt", "createdAt", "updatedAt", "startedAt", "heartbeatAt", "finishedAt", "cancelRequestedAt",
                 "notBefore", "expiresAt", "retryOf", "resource", "owner", "links"],
    "properties": {
        "id": {"type": "string", "pattern": "^[1-9][0-9]*$"}, "version": {"type": "integer"}, "type": {"type": "string"},
        "status": {"enum": [str(status) for status in Status]},
        "progress": _nullable("integer", minimum=0, maximum=100, description="null while the length is unknown"),
        "stage": _nullable("string"), "eta": _NO_INSTANT, "priority": {"enum": [str(priority) for priority in Priority]},
        "payload": {"description": "What was asked; secrets are covered."}, "tags": {"type": "array", "items": {"type": "string"}},
        "callbackUrl": _nullable("string"), "timeout": {"type": "integer", "description": "seconds"},
        "result": {"description": "Only when succeeded or partialSuccess."}, "error": {"$ref": "#/components/schemas/Problem"},
        "attempt": {"type": "integer"}, "maxAttempts": {"type": "integer"}, "nextAttemptAt": _NO_INSTANT, "createdAt": _INSTANT,
        "updatedAt": _INSTANT, "startedAt": _NO_INSTANT, "heartbeatAt": _NO_INSTANT, "finishedAt": _NO_INSTANT,
        "cancelRequestedAt": _NO_INSTANT, "notBefore": _NO_INSTANT, "expiresAt": _NO_INSTANT, "retryOf": _nullable("string"),
        "resource": _nullable("string"), "owner": {"type": "string"},
        "links": {"type": "object", "additionalProperties": {"type": "string"}},
        "truncated": {"const": True, "description": "In lists: payload or result was too big to be shown."}}}

ARTIFACT = {
    "type": "object", "required": ["id", "url", "name", "size", "sha256", "mediaType", "expiresAt"],
    "properties": {"id": {"type": "string"}, "url": {"type": "string"}, "name": {"type": "string"}, "size": {"type": "integer"},
                   "sha256": _nullable("string"), "mediaType": {"type": "string"}, "expiresAt": _NO_INSTANT}}

RESOURCE = {
    "type": "object", "required": ["id", "status", "job"],
    "properties": {"id": {"type": "string"}, "status": {"enum": ["processing", "ready", "failed", "cancelled"]},
                   "job": {"type": "string"}, "createdAt": _INSTANT, "updatedAt": _INSTANT, "expiresAt": _NO_INSTANT}}

KEY = {
    "type": "object", "required": ["id", "owner", "role", "name", "valid", "createdAt"],
    "properties": {"id": {"type": "string"}, "owner": {"type": "string"}, "role": {"enum": ["submit", "read", "admin"]},
                   "name": {"type": "string"}, "hint": {"type": "string"}, "valid": {"type": "boolean"}, "createdAt": _INSTANT,
                   "syncWait": {"type": "integer", "description": "Seconds that its submissions wait by themselves."},
                   "expiresAt": _NO_INSTANT, "revokedAt": _NO_INSTANT, "lastUsedAt": _NO_INSTANT,
                   "key": {"type": "string", "description": "Only in the answer that makes it."}}}


ACT = {
    "type": "object", "required": ["id", "at", "act", "subject", "actor", "door", "key", "detail"],
    "properties": {"id": {"type": "string"}, "at": _INSTANT, "act": {"enum": list(Act)},
                   "subject": {"type": "string", "description": "The path of what it was done to."},
                   "owner": _nullable("string", description="Whose that is."), "actor": {"type": "string"},
                   "door": {"enum": list(Door)}, "key": _nullable("object"), "requestId": _nullable("string"),
                   "detail": {"type": "object"}}}


def listing(member: str, schema: str, **more: Any) -> dict[str, Any]:
    """An object with a list under `member`."""
    return {"type": "object", "required": [member], "properties": {
        member: {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}} | more}


_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

SELECTION = {
    "type": "object", "description": "A list's filter, ids, or all; an empty filter is refused.", "additionalProperties": False,
    "properties": {name: _TEXTS for name in ("status", "type", "tag", "ids")} | {name: {"type": "string"} for name in (
        "q", "owner", "createdAfter", "createdBefore", "updatedAfter")} | {
        "all": {"type": "boolean"}, "dryRun": {"type": "boolean"}, "cursor": _nullable("string")}}

BULK = {
    "type": "object", "required": ["dryRun", "counts", "refused", "next"], "properties": {
        "dryRun": {"type": "boolean"}, "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "refused": {"type": "array", "items": {"type": "object", "required": ["id", "reason", "detail"]}},
        "next": _nullable("string", description="The cursor for the rest, if there was more than one request looks at."),
        "retried": {"type": "object", "description": "By id: the id of the new job.", "additionalProperties": {"type": "string"}}}}

SCHEMAS = {
    "Problem": PROBLEM, "Job": JOB, "Artifact": ARTIFACT, "Resource": RESOURCE, "Key": KEY, "Act": ACT,
    "Jobs": listing("jobs", "Job", next=_nullable("string")),
    "Changes": {"type": "object", "required": ["changes", "nextCursor", "hasMore"], "properties": {
        "changes": {"type": "array", "items": {"type": "object"}}, "nextCursor": {"type": "string"}, "hasMore": {"type": "boolean"}}},
    "Artifacts": listing("artifacts", "Artifact"), "Keys": listing("keys", "Key"),
    "Acts": listing("acts", "Act", next=_nullable("string")),
    "Lines": {"type": "object", "required": ["lines", "next"], "properties": {
        "lines": {"type": "array", "items": {"type": "object"}}, "next": {"type": "integer"}}},
    "Attempts": {"type": "object", "required": ["attempts"], "properties": {"attempts": {"type": "array", "items": {"type": "object"}}}},
    "JobTypes": {"type": "object", "required": ["jobTypes"], "properties": {"jobTypes": {"type": "array", "items": {"type": "object"}}}},
    "Selection": SELECTION, "Bulk": BULK, "Anything": {},
    "Health": {"type": "object", "required": ["status"], "properties": {
        "status": {"type": "string"}, "degraded": {"type": "array", "items": {"type": "string"}}}},
}

HEADERS = {name: {"description": text, "schema": schema} for name, text, schema in (
    ("Location", "The job to follow.", {"type": "string", "format": "uri"}),
    ("Retry-After", "Whole seconds until another look is worth while.", {"type": "integer"}),
    ("ETag", "Strong validator; changes with the job's version.", {"type": "string"}))}

CALLBACK = {
    "summary": "What happened and where to read it, signed; delivered at least once.",
    "requestBody": {"required": True, "content": {"application/json": {"schema": {
        "type": "object", "required": ["id", "type", "createdAt", "data"], "properties": {
            "id": {"type": "string"}, "type": {"type": "string"}, "createdAt": _INSTANT, "data": {"type": "object"}}}}}},
    "responses": {"2XX": {"description": "Received."}, "410": {"description": "Never call again."}}}

_DESCRIPTIONS = {
    200: "As asked.", 201: "Made.", 202: "Accepted: on disk, to be followed at Location.", 204: "Done, and nothing to show.",
    206: "A part of the bytes.", 302: "Look elsewhere.", 303: "Look elsewhere.", 304: "You have these bytes already."}


def response(status: int, schema: str | None) -> dict[str, Any]:
    """One answer; `schema` names a component, or media types, or some of both with spaces between; None for an empty body."""
    made: dict[str, Any] = {"description": _DESCRIPTIONS.get(status, "A problem.")}
    if status >= 400:
        made["content"] = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    elif schema:
        made["content"] = {}
        for name in schema.split():
            component = {} if "/" in name else {"$ref": f"#/components/schemas/{name}"}
            made["content"][name if "/" in name else "application/json"] = {"schema": component}
    if status == 202:
        made["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in ("Location", "Retry-After")}
    return made


def path_parameters(path: str) -> list[dict[str, Any]]:
    """The parameters that a path names."""
    return [{"name": name, "in": "path", "required": True,
             "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"} if name == "id" else {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)]


def query(name: str, type_: str = "string", description: str = "") -> dict[str, Any]:
    """A query parameter."""
    return {"name": name, "in": "query", "schema": {"type": type_}} | ({"description": description} if description else {})


def header(name: str, description: str = "") -> dict[str, Any]:
    """A request header."""
    return {"name": name, "in": "header", "schema": {"type": "string"}} | ({"description": description} if description else {})


def json_body(schema: dict[str, Any], required: bool = True) -> dict[str, Any]:
    """A JSON request body."""
    return {"required": required, "content": {"application/json": {"schema": schema}}}
