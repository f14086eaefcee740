"""The texts of the built-in job types and of validators, found where they are declared and where they are raised.

A text into which something is filled becomes a pattern: `f"{name} stands here already."` is `{name} stands here already.`
"""

import ast
import builtins
import inspect
import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from marshmallow import Schema, fields, validate

from jobs import addresses
from jobs.work.job_type import JobType

JOBS = Path(__file__).parents[1] / "jobs"
_RAISING = {"ValidationError", "fault", "BadTarget", "_forbidden", "NoTopic"}     # calls whose texts stand at a field
_ANSWERING = {"advice", "unavailable"}                                            # functions that return such a text
_MEMBERS = {"title", "description", "detail", "unknown"}                          # of a dict
_FORM = ("web/schemas.py", "web/submissions.py", "web/inputs.py", "targets.py", "addresses.py", "work/job_type.py")
_WITH_PROBLEMS = ("web/uploads.py", "core/submission.py", "web/dashboard/submit.py", "web/dashboard/again.py")
_SAYING = ("default_message", "message_min", "message_max", "message_all", "message_equal")    # attributes of validators
_RANGE = {"min_op": ("message_gte", "message_gt"), "max_op": ("message_lte", "message_lt")}


def of_types(types: Iterable[JobType]) -> Iterator[str]:
    """Every text of these declarations that a person may see on the dashboard."""
    for declared in types:
        yield from (declared.title, declared.description)
        yield from _of_schema(declared.schema)


def raised() -> Iterator[str]:
    """Every message that the modules of the built-in types, and those that judge a form, may raise."""
    yield from {reason for _, reason in addresses._REFUSED}
    for path in sorted([*(JOBS / "types").rglob("*.py"), *(JOBS / name for name in _FORM)]):
        yield from _in_module(path, _RAISING)
    for name in _WITH_PROBLEMS:
        yield from _in_module(JOBS / name, _RAISING | {"Problem"})


def of_marshmallow() -> Iterator[str]:
    """What marshmallow's own fields and validators say."""
    yield from Schema._default_error_messages.values()
    for kind in _classes(fields, fields.Field):
        for name, text in vars(kind).get("default_error_messages", {}).items():
            if name != "format":        # of writing, not of reading
                yield from _temporal(text)
    for kind in _classes(validate, validate.Validator):
        yield from _of_validator(kind)


def _classes(module, base: type) -> list[type]:
    return [kind for kind in vars(module).values() if inspect.isclass(kind) and issubclass(kind, base)]


def _temporal(text: str) -> Iterator[str]:
    """`Not a valid {obj_type}.`, written out for each."""
    kinds = {kind.OBJ_TYPE for kind in _classes(fields, fields.DateTime) + _classes(fields, fields.Time) + [fields.Date]}
    for kind, awareness in product(sorted(kinds), ("naive", "aware")):
        yield text.replace("{obj_type}", kind).replace("{awareness}", awareness)


def _of_validator(one: type | validate.Validator) -> Iterator[str]:
    if one is validate.Range:       # an instance has filled these in
        words = {place: [getattr(one, name) for name in names] for place, names in _RANGE.items()}
        for text, low, high in product((one.message_min, one.message_max, one.message_all), words["min_op"], words["max_op"]):
            yield text.format(min_op=low, max_op=high)
    else:
        yield from (text for name in dir(one) if name in _SAYING
                    if isinstance(text := getattr(one, name), str))
    if error := getattr(one, "error", None):
        yield error


def _of_schema(schema: Schema) -> Iterator[str]:
    for field in schema.fields.values():
        yield from _of_field(field)


def _of_field(field: fields.Field) -> Iterator[str]:
    yield from (text for name in ("title", "label", "description", "help") if (text := field.metadata.get(name)))
    for validator in field.validators:
        if isinstance(validator, validate.Validator):
            yield from _of_validator(validator)
        yield from filter(None, getattr(validator, "labels", ()))
    for name, text in field.error_messages.items():
        if isinstance(text, str) and name != "format":
            yield from _temporal(text)
    if isinstance(field, fields.Nested):
        yield from _of_schema(field.schema)
    for inner in ("inner", "key_field", "value_field"):
        if isinstance(getattr(field, inner, None), fields.Field):
            yield from _of_field(getattr(field, inner))


def _in_module(path: Path, callees: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and _name(node.func) in callees:
            said = node.args[1:2] if _name(node.func) in ("Problem", "fault") else node.args[:1]
            for one in said:
                yield from _texts(one)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                is_said = isinstance(key, ast.Constant) and key.value in _MEMBERS
                if is_said and (key.value == "detail" or isinstance(value, ast.JoinedStr)):
                    yield from _texts(value)
        elif isinstance(node, ast.FunctionDef) and node.name in _ANSWERING:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value:
                    yield from _texts(inner.value)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _texts(node: ast.expr) -> Iterator[str]:
    """Every text that an expression may amount to, or that stands in its lists and values."""
    match node:
        case ast.Constant(str(text)) if text.strip():
            yield text
        case ast.JoinedStr(parts) if any(isinstance(part, ast.Constant) and re.search(r"\w\w", part.value) for part in parts):
            yield _pattern(parts)
        case ast.IfExp():
            yield from (*_texts(node.body), *_texts(node.orelse))
        case ast.BinOp(left, ast.Add(), right):
            yield from map("".join, product(_texts(left), _texts(right)))
        case ast.List(elements) | ast.Tuple(elements):
            for one in elements:
                yield from _texts(one)
        case ast.Dict():
            for one in node.values:
                yield from _texts(one)
        case ast.DictComp():
            yield from _texts(node.value)


def _pattern(parts: list[ast.expr]) -> str:
    """The pattern of an f-string: each place bears the last name in it, or its number."""
    found, places = [], {}
    for part in parts:
        if isinstance(part, ast.Constant):
            found.append(part.value)
            continue
        source = ast.unparse(part)
        if source not in places:
            names = [_name(node).strip("_").lower() for node in ast.walk(part.value) if isinstance(node, (ast.Name, ast.Attribute))]
            name = next((name for name in names if name not in ("self", "join", *dir(builtins))), "")
            places[source] = name if name and name not in places.values() else str(len(places) + 1)
        found.append(f"{{{places[source]}}}")
    return "".join(found)
