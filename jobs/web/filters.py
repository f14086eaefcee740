"""The filter of a list of jobs, as keywords of `reads.page`: out of a query, or out of the body of a bulk request."""

from collections.abc import Mapping
from typing import Any

from flask import request

from jobs.core.access import Caller
from jobs.core.states import Status
from jobs.db import Reader
from jobs.errors import Problem
from jobs.web import schemas
from jobs.web.queries import parse_instant
from jobs.web.site import site

NAMES = ("status", "type", "tag", "q", "owner", "ids", "createdAfter", "createdBefore", "updatedAfter")
MAX_IDS = 200
_MOST = 50  # values of one other name
_TIMES = {"createdAfter": "created_after", "createdBefore": "created_before", "updatedAfter": "updated_after"}
_JOINED = ("status", "type", "ids")  # several values may stand in one parameter, with commas between them


class Unusable(Exception):
    """A filter's value cannot be meant; `name` says which: `status`, or `ids/1` for one of several in a body."""

    def __init__(self, name: str, detail: str):
        super().__init__(detail)
        self.name = name


def of_query() -> dict[str, Any]:
    """The filter in the request's query. Problems 400."""
    given = {name: request.args.getlist(name) for name in NAMES if name in request.args}
    for name in _JOINED:
        if name in given:
            given[name] = [value for text in given[name] for value in text.split(",")]
    try:
        return read(given)
    except Unusable as fault:
        raise Problem("bad-parameter", str(fault)) from None


def of_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """The filter among the members of a body, each a value or an array of values. Problems 422."""
    given: dict[str, list[str]] = {}
    for name in NAMES:
        if name in body:
            values = body[name] if isinstance(body[name], list) else [body[name]]
            given[name] = [str(value) if type(value) is int else value for value in values]
    try:
        for name, values in given.items():
            for place, value in enumerate(values):
                if not isinstance(value, str):
                    raise Unusable(f"{name}/{place}" if isinstance(body[name], list) else name, "This is not text.")
        return read(given)
    except Unusable as fault:
        raise schemas.fault(f"#/{fault.name}", str(fault)) from None


def scoped(wanted: dict[str, Any], caller: Caller) -> dict[str, Any] | None:
    """The filter cut to what the caller may see; None when that is nothing."""
    if caller.sees_all:
        return wanted
    if wanted.get("owner", caller.owner) != caller.owner:
        return None
    return wanted | {"owner": caller.owner}


def read(given: Mapping[str, list[str]]) -> dict[str, Any]:
    """The filter out of its texts by name. Raises Unusable."""
    found: dict[str, Any] = {}
    for name, values in given.items():
        if not values or not all(values):
            raise Unusable(name, f"{name} is empty. Leave it out to have all.")
        if any("\0" in value for value in values):
            raise Unusable(name, f"{name} holds a NUL character.")
        if len(values) > 1 and name not in (*_JOINED, "tag"):
            raise Unusable(name, f"{name} has one value.")
        if len(values) > _MOST and name != "ids":
            raise Unusable(name, f"{name} has at most {_MOST} values.")
        if name in _TIMES:
            found[_TIMES[name]] = _instant(name, values[0])
        elif name == "ids":
            found["ids"] = _ids(values)
        elif name in ("q", "owner"):
            found[name] = values[0]
        else:
            found[name] = tuple(values)
    for value in found.get("status", ()):
        if value not in list(Status):
            raise Unusable("status", f"status cannot be {value[:100]!r}; it is one of {', '.join(Status)}.")
    for value in found.get("type", ()):
        if not _is_type(site().db.read(), value):
            raise Unusable("type", f"There is no job type {value[:100]!r}, and never was a job of it.")
    return found


def _ids(values: list[str]) -> tuple[int, ...]:
    if len(values) > MAX_IDS:
        raise Unusable("ids", f"ids has at most {MAX_IDS} values, not {len(values)}.")
    for each in values:
        if not (each.isascii() and each.isdigit() and len(each) <= 18):
            raise Unusable("ids", f"ids holds {each[:100]!r}, which is no id of a job.")
    return tuple(int(each) for each in values)


def _is_type(reader: Reader, name: str) -> bool:
    """Whether the server has the type, or had it: its jobs stay readable."""
    if site().registry.get(name):
        return True
    return reader.value("SELECT 1 FROM tallies WHERE type = :type LIMIT 1", type=name) is not None


def _instant(name: str, text: str) -> str:
    try:
        return parse_instant(name, text)
    except ValueError as fault:
        raise Unusable(name, str(fault)) from None
