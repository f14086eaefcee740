"""The shapes of requests: the options that every submission may carry, and faults as JSON pointers."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from marshmallow import RAISE, Schema, ValidationError, fields, validate

from jobs import clock
from jobs.core.states import Priority
from jobs.errors import Problem

DAY = 86400
COVERED = "•••"
_FARTHEST = 365  # days


class Instant(fields.Field):
    """An RFC 3339 instant with its offset; kept in the wire form."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        try:
            instant = clock.parse(value)
        except (ValueError, TypeError):
            raise ValidationError("Write an RFC 3339 time with its offset, such as 2026-09-18T08:11:00Z.") from None
        if instant > clock.now() + timedelta(days=_FARTHEST):
            raise ValidationError(f"This is more than {_FARTHEST} days ahead.")
        return clock.wire(instant)


class Options(Schema):
    """What may be said about any job, beside its payload."""

    class Meta:
        unknown = RAISE

    priority = fields.Enum(Priority, by_value=True)
    callback_url = fields.Str(data_key="callbackUrl", allow_none=True, validate=validate.Length(max=2000))
    not_before = Instant(data_key="notBefore", allow_none=True)
    max_attempts = fields.Int(data_key="maxAttempts", strict=True, validate=validate.Range(1, 100))
    timeout = fields.Int(strict=True, validate=validate.Range(1, 30 * DAY))
    queue_ttl = fields.Int(data_key="queueTtl", strict=True, validate=validate.Range(1, _FARTHEST * DAY))
    tags = fields.List(fields.Str(validate=validate.Length(1, 100)), validate=validate.Length(max=50))


def fault(pointer: str, detail: str) -> Problem:
    """The 422 that points at one member."""
    return Problem("invalid-payload", errors=[{"pointer": pointer, "detail": detail}])


def load(schema: Schema, data: Any, at: str = "#") -> dict[str, Any]:
    """Validate; Problem 422 `invalid-payload` with a pointer below `at` for each fault."""
    loaded, faults = judge(schema, data, at)
    if faults:
        raise Problem("invalid-payload", errors=faults)
    return loaded


def judge(schema: Schema, data: Any, at: str = "#") -> tuple[dict[str, Any], list[dict[str, str]]]:
    """What the data means, and every fault in it with a pointer below `at`."""
    if not isinstance(data, dict):
        return {}, [{"pointer": at, "detail": "This is a JSON object."}]
    try:
        return schema.load(data), []
    except ValidationError as error:
        return {}, pointers(error.messages, at)
    except (TypeError, ValueError, OverflowError, RecursionError):  # a custom field that does not expect such a value
        return {}, [{"pointer": at, "detail": "The value cannot be used."}]


def cover(schema: Schema, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload as it may be shown: members whose field is marked `secret` read •••, in nested objects too."""
    named = {field.data_key or name: field for name, field in schema.fields.items()}
    return {name: _covered(named[name], value) if name in named else value for name, value in payload.items()}


def _covered(field: fields.Field, value: Any) -> Any:
    if field.metadata.get("secret"):
        return None if value is None else COVERED
    if isinstance(field, fields.Nested):
        if isinstance(value, list):
            return [_covered(field, each) for each in value]
        return cover(field.schema, value) if isinstance(value, dict) else value
    if isinstance(field, fields.List) and isinstance(value, list):
        return [_covered(field.inner, each) for each in value]
    if isinstance(field, fields.Dict) and field.value_field and isinstance(value, dict):
        return {name: _covered(field.value_field, each) for name, each in value.items()}
    return value


def pointers(messages: Any, at: str = "#") -> list[dict[str, str]]:
    """marshmallow's nested messages as a flat list of `{"pointer": "#/…", "detail": …}` (RFC 6901, section 6)."""
    if isinstance(messages, str):
        return [{"pointer": at, "detail": messages}]
    if isinstance(messages, list):
        return [entry for message in messages for entry in pointers(message, at)]
    return [entry for key, inner in messages.items()
            for entry in pointers(inner, at if key == "_schema" else f"{at}/{_token(key)}")]


def _token(key: Any) -> str:
    return quote(str(key).replace("~", "~0").replace("/", "~1"), safe="~!$&'()*+,;=:@")
