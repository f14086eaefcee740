"""A form out of a job type's schema, and the payload out of a form that was sent.

What a browser sends is text; it is turned into JSON as far as the field's kind tells, and judged by the same schema as
any other submission. Text that cannot be turned stays text, so that the schema's own message stands at the field.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field as dataclass_field
from typing import Any

from marshmallow import fields, missing, validate
from werkzeug.datastructures import MultiDict

from jobs.web.schemas import COVERED
from jobs.work.job_type import JobType

_LONG = 200  # characters of text that get a field of several lines


@dataclass(frozen=True)
class Input:
    """One field of a form. `kind`: text, long, number, whole, switch, choice, choices, lines, file, secret, json."""

    name: str
    kind: str
    label: str
    help: str
    required: bool
    default: str | list[str] | None = None
    choices: tuple[str, ...] = ()
    labels: Mapping[str, str] = dataclass_field(default_factory=dict)    # of choices, where the declaration has such
    low: float | None = None
    high: float | None = None
    nullable: bool = False
    names_files: bool = False


def inputs(declared: JobType) -> list[Input]:
    """The fields of the form for this type, in the order in which they were declared; required ones first."""
    found = [_input(name, field) for name, field in declared.schema.fields.items() if not field.dump_only]
    return sorted(found, key=lambda one: not one.required)


def read(known: list[Input], form: MultiDict) -> dict[str, Any]:
    """The payload that the form describes. Fields left empty are left out."""
    payload = {}
    for one in known:
        value = _read(one, form)
        if value is not missing:
            payload[one.name] = value
    return payload


def written(known: list[Input], payload: Mapping[str, Any]) -> MultiDict:
    """The form that describes a payload: for doing something like it again."""
    form = MultiDict()
    for one in known:
        value = payload.get(one.name, missing)
        if value is missing or value is None:
            continue
        if one.kind == "secret":
            form.add(keep_name(one), "1")
            continue
        texts = value if one.kind in ("choices", "lines") and isinstance(value, list) else [value]
        if one.kind == "lines":
            texts = ["\n".join(str(text) for text in texts)]
        for text in texts:
            plain = isinstance(text, str) and one.kind != "json"
            form.add(field_name(one), text if plain else json.dumps(text, ensure_ascii=False))
    return form


def faults(errors: Iterable[Mapping[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The messages by the field at which they stand, each with the place inside of it.

    `#/payload/params/since` → `payload.params`, `since`; `#/payload/files/1` → `payload.files`, `2`; `#/options/tags` →
    `option.tags`; what concerns no field is under "".
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for one in errors:
        part, name, *inner = *one["pointer"].split("/")[1:], *[""] * 2
        place = " ".join(str(int(step) + 1) if step.isdecimal() else step for step in inner if step)
        field = f"{'option' if part == 'options' else 'payload'}.{name}" if name else ""
        found.setdefault(field, []).append((place, one["detail"]))
    return found


def field_name(one: Input) -> str:
    """What the field is called in the form, apart from everything that is not payload."""
    return f"payload.{one.name}"


def keep_name(one: Input) -> str:
    """The tick that stands for a secret of an earlier job: keep it."""
    return f"keep.{one.name}"


def _input(key: str, field: fields.Field) -> Input:
    default = None if field.load_default is missing or callable(field.load_default) else field.load_default
    choices = _choices(field)
    kind = _kind(field, choices)
    low, high = _range(field)
    if kind == "choices":
        choices = _choices(field.inner)
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    if default is not None and kind not in ("choices", "text", "long", "choice"):
        default = "\n".join(map(str, default)) if kind == "lines" else json.dumps(default, ensure_ascii=False)
    return Input(
        name=field.data_key or key, kind=kind, label=field.metadata.get("title") or field.metadata.get("label") or "",
        help=field.metadata.get("description") or field.metadata.get("help") or "", required=field.required,
        default=default if isinstance(default, (str, list)) or default is None else str(default),
        choices=choices, labels=_labels(field.inner if kind == "choices" else field), low=low, high=high, nullable=field.allow_none,
        names_files=bool(field.metadata.get("input")))


def _kind(field: fields.Field, choices: tuple[str, ...]) -> str:
    if field.metadata.get("input"):
        return "lines" if isinstance(field, fields.List) else "file"
    if field.metadata.get("secret"):
        return "secret"
    if field.metadata.get("source"):
        return "text"       # an address, however long it may be
    if choices:
        return "choice"
    if isinstance(field, fields.List):
        inner = field.inner
        return "choices" if _choices(inner) else "lines" if isinstance(inner, fields.String) else "json"
    if isinstance(field, fields.Boolean):
        return "switch"
    if isinstance(field, fields.Integer):
        return "whole"
    if isinstance(field, (fields.Float, fields.Decimal)):
        return "number"
    if isinstance(field, (fields.String, fields.DateTime, fields.Date, fields.UUID, fields.Enum)):
        longest = next((one.max for one in field.validators if isinstance(one, validate.Length) and one.max), None)
        return "long" if field.metadata.get("long") or (longest or 0) > _LONG else "text"
    return "json"


def _choices(field: fields.Field) -> tuple[str, ...]:
    if isinstance(field, fields.Enum):
        members = list(field.enum)
        return tuple(str(one.value) if field.by_value else one.name for one in members)
    known = next((one.choices for one in field.validators if isinstance(one, validate.OneOf)), ())
    return tuple(str(choice) for choice in known)


def _labels(field: fields.Field) -> dict[str, str]:
    """What the choices are called for people (`OneOf(…, labels=…)`)."""
    known = next((one for one in field.validators if isinstance(one, validate.OneOf)), None)
    return {str(choice): label for choice, label in zip(known.choices, known.labels) if label} if known else {}


def _range(field: fields.Field) -> tuple[float | None, float | None]:
    return next(((one.min, one.max) for one in field.validators if isinstance(one, validate.Range)), (None, None))


def _read(one: Input, form: MultiDict) -> Any:
    name = field_name(one)
    if one.kind == "choices":
        return form.getlist(name) or missing
    if one.kind == "switch":
        return {"true": True, "false": False}.get(form.get(name, ""), missing)
    text = form.get(name, "").replace("\r\n", "\n")
    if one.kind == "lines":
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return lines or missing
    if not text.strip():
        return COVERED if one.kind == "secret" and form.get(keep_name(one)) else missing
    if one.kind in ("whole", "number"):
        return _number(text.strip())
    if one.kind == "json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text if one.kind in ("long", "secret") else text.strip()


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
