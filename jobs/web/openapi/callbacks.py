"""The operations of callbacks, and the requests that the server itself makes."""

from typing import Any

from jobs.web.openapi.operations import CURSOR, LIMIT, Operation
from jobs.web.openapi.shapes import CALLBACK, header, json_body, query
from jobs.webhooks.catalogue import EventType

_READ = (401, 404, 429)
_CHANGE = (400, 401, 403, 404, 413, 415, 422, 429, 503, 507)
_ENDPOINT = "/v1/webhook-endpoints/{id}"
_SINCE = json_body({"type": "object", "required": ["since"],
                    "properties": {"since": {"type": "string", "format": "date-time"}}})
_MEMBERS = {
    "url": {"type": "string", "format": "uri"}, "events": {"type": "array", "items": {"type": "string"}},
    "description": {"type": "string"}}
_CHANGES = _MEMBERS | {"status": {"enum": ["enabled", "disabled"]}}
_ORIGIN = {"type": "object", "required": ["origin"], "properties": {"origin": {"type": "string", "format": "uri"}}}
_SIGNATURES = [header(name, text) | {"required": True} for name, text in (
    ("Idempotency-Key", "The same over every delivery of this event."),
    ("X-Webhook-Signature", "t={Unix seconds},v1={hex HMAC-SHA256 of \"{t}.{body}\"}, one v1 for each active secret."),
    ("webhook-id", "The id of the event (Standard Webhooks 1.0)."),
    ("webhook-timestamp", "Unix seconds of this attempt."),
    ("webhook-signature", "v1,{base64 HMAC-SHA256}, one for each active secret, separated by spaces."))]


def _operation(method: str, path: str, name: str, summary: str, status: int, problems: tuple[int, ...] = _CHANGE,
               body: dict[str, Any] | None = None, parameters: tuple[dict[str, Any], ...] = ()) -> Operation:
    return Operation(method, path, name, summary, "Callbacks", {status: None if status == 204 else "Anything"}, problems,
                     parameters, body)


OPERATIONS = (
    _operation("get", "/v1/event-types", "listEventTypes", "Events that can be subscribed to", 200, (401, 429)),
    _operation("get", "/v1/webhook-endpoints", "listEndpoints", "Registered endpoints", 200, (401, 429)),
    _operation("post", "/v1/webhook-endpoints", "registerEndpoint", "Register an endpoint", 201, body=json_body(
        {"type": "object", "required": ["url", "events"], "properties": _MEMBERS, "additionalProperties": False})),
    _operation("get", _ENDPOINT, "getEndpoint", "An endpoint", 200, _READ),
    _operation("patch", _ENDPOINT, "changeEndpoint", "Change an endpoint, disable or enable it", 200, body=json_body(
        {"type": "object", "properties": _CHANGES, "additionalProperties": False})),
    _operation("delete", _ENDPOINT, "deleteEndpoint", "Delete an endpoint", 204),
    _operation("post", f"{_ENDPOINT}:ping", "pingEndpoint", "Send a test", 202),
    _operation("post", f"{_ENDPOINT}:rotate", "rotateEndpointSecret", "A new secret; the last one signs for a day", 200),
    _operation("post", f"{_ENDPOINT}:redeliver", "redeliverToEndpoint", "Send again what failed", 202, (*_CHANGE, 409),
               _SINCE),
    _operation("get", f"{_ENDPOINT}/secrets", "getEndpointSecrets", "An endpoint's secrets", 200, (*_READ, 403)),
    _operation("get", f"{_ENDPOINT}/deliveries", "listEndpointDeliveries", "What was sent there", 200, _READ,
               parameters=(LIMIT, CURSOR)),
    _operation("get", "/v1/callback-secrets", "getCallbackSecrets", "Secrets of an origin of callback URLs", 200,
               (401, 403, 429), parameters=(query("origin") | {"required": True},)),
    _operation("post", "/v1/callback-secrets:rotate", "rotateCallbackSecret", "A new secret for an origin", 200,
               body=json_body(_ORIGIN)),
    _operation("get", "/v1/jobs/{id}/deliveries", "listJobDeliveries", "What was sent about a job", 200, (*_READ, 410)),
    _operation("get", "/v1/deliveries/{id}", "getDelivery", "A delivery with every attempt", 200, _READ),
    _operation("post", "/v1/deliveries/{id}:redeliver", "redeliver", "Send it again", 202, (*_CHANGE, 409)),
    _operation("post", "/v1/deliveries:redeliver", "redeliverFailed", "Send again all that failed", 202, body=_SINCE),
)


def webhooks(events: list[EventType]) -> dict[str, Any]:
    """The requests to registered endpoints, one for each type of event."""
    return {event.type: {"post": CALLBACK | {
        "summary": event.title, "deprecated": event.deprecated, "parameters": _SIGNATURES,
        "requestBody": {"required": True, "content": {"application/json": {"schema": event.describe()["schema"]}}},
    }} for event in events}
