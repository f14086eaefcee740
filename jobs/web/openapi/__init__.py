"""The server describing itself: OpenAPI 3.1 made from the schemas that validate, and the list of job types."""

from collections.abc import Mapping
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema

from jobs import __version__
from jobs.settings import Settings
from jobs.web.openapi import callbacks, dialects, shapes
from jobs.web.openapi.operations import OPERATIONS, Operation, for_collection
from jobs.web.schemas import Options
from jobs.webhooks import catalogue
from jobs.work.job_type import JobType, Registry

_INLINE = MarshmallowPlugin(schema_name_resolver=lambda schema: None)
APISpec("", "", "3.1.0", plugins=[_INLINE])  # gives the plugin its converter


def json_schema(schema: Schema) -> dict[str, Any]:
    """A marshmallow schema as JSON Schema 2020-12."""
    return _INLINE.converter.schema2jsonschema(schema)


def payload_schema(declared: JobType) -> dict[str, Any]:
    """The payload of a job type; members that name a file or an address, and secrets, are marked."""
    schema = json_schema(declared.schema)
    for name, member in schema.get("properties", {}).items():
        if name in declared.inputs:
            member["format"] = "uri-reference"
        if name in declared.secrets:
            member["writeOnly"] = True
    return schema


def describe_type(declared: JobType, settings: Settings) -> dict[str, Any]:
    """A job type as GET /v1/job-types shows it. Times are in seconds."""
    return {
        "name": declared.name, "title": declared.title, "description": declared.description,
        "payload": payload_schema(declared), "collection": f"/v1/{declared.collection}" if declared.collection else None,
        "queue": declared.queue, "timeout": declared.timeout or round(settings.job_timeout),
        "maxAttempts": declared.max_attempts or settings.max_attempts, "concurrency": declared.concurrency,
        "queueTtl": declared.queue_ttl or round(settings.queue_ttl), "syncWait": declared.sync_wait,
        "requiresIdempotencyKey": declared.require_idempotency_key or settings.require_idempotency_key,
        "cancellation": declared.cancellation, "unavailable": declared.unavailable}


def document(registry: Registry, settings: Settings, base_url: str) -> dict[str, Any]:
    """The whole OpenAPI document for this server and its job types."""
    spec = APISpec(
        title="Accepted", version=__version__, openapi_version="3.1.0", servers=[{"url": base_url}],
        info={"description": "Long-running work over HTTP: submit a job, get 202, follow it, fetch its result."})
    for name, schema in (shapes.SCHEMAS | dialects.SCHEMAS).items():
        spec.components.schema(name, schema)
    for declared in registry:
        spec.components.schema(declared.name, _side_by_side(declared))
    spec.components.schema("Options", json_schema(Options()))
    spec.components.schema("Submission", {"oneOf": [_submission(declared) for declared in registry]})
    for name, header in shapes.HEADERS.items():
        spec.components.header(name, header)
    spec.components.security_scheme("key", {"type": "http", "scheme": "bearer", "description": "A key, acc_…"})
    spec.components.security_scheme("session", {"type": "apiKey", "in": "cookie", "name": "accepted"})
    operations = [*OPERATIONS, *callbacks.OPERATIONS]
    for declared in registry:
        if declared.collection:
            operations += for_collection(declared.collection, _reference(declared))
    operations += dialects.OPERATIONS
    for declared in registry:
        operations += dialects.for_type(declared, _reference(declared))
    for operation in operations:
        spec.path(operation.path, operations={operation.method: _operation(operation)})
    found = spec.to_dict()
    found["security"] = [{"key": []}, {"session": []}]
    found["webhooks"] = callbacks.webhooks(catalogue.event_types(
        declared.collection for declared in registry if declared.collection))
    return found


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name, "summary": operation.summary, "tags": [operation.tag],
        "parameters": [*shapes.path_parameters(operation.path), *operation.parameters],
        "responses": {str(status): shapes.response(status, operation.answers.get(status)) for status in operation.statuses}}
    if operation.body:
        made["requestBody"] = operation.body
    if operation.public:
        made["security"] = []
    if operation.calls_back:
        made["callbacks"] = {"ended": {"{$request.body#/callbackUrl}": {"post": shapes.CALLBACK}}}
    return made


def _submission(declared: JobType) -> dict[str, Any]:
    payload = payload_schema(declared)
    return {"type": "object", "title": declared.name, "required": ["type", *(["payload"] if payload.get("required") else [])],
            "properties": {"type": {"const": declared.name}, "payload": payload} | _options(), "additionalProperties": False}


def _reference(declared: JobType) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{declared.name}"}


def _side_by_side(declared: JobType) -> dict[str, Any]:
    payload = payload_schema(declared)
    return payload | {"properties": payload.get("properties", {}) | _options()}


def _options() -> Mapping[str, Any]:
    return json_schema(Options())["properties"]
