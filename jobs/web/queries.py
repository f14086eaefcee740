"""Reading a request's query strictly: what is unknown or unusable is a 400, never silently another answer."""

from collections.abc import Iterable

from flask import request

from jobs import clock
from jobs.errors import Problem

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
_LARGEST = 2**63 - 1                           # what both databases can compare with
_SEVERAL = frozenset({"status", "type", "tag"})  # may stand more than once
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def known(*names: str) -> None:
    """Problem 400 when the query has a parameter that is not one of these, or one of them twice."""
    for name, values in request.args.lists():
        if name not in names:
            allowed = f"Known are: {', '.join(names)}." if names else "There are none here."
            raise Problem("bad-parameter", f"The parameter {name[:100]!r} is unknown. {allowed}")
        if len(values) > 1 and name not in _SEVERAL:
            raise Problem("bad-parameter", f"{name} stands more than once.")
        if any("\0" in value for value in values):
            raise Problem("bad-parameter", f"{name} holds a NUL character.")


def number(name: str, default: int) -> int:
    """A whole number, not negative, out of the query; Problem 400."""
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 100):
        raise Problem("bad-parameter", f"{name} is a whole number, 0 or more.")
    return min(int(text), _LARGEST)


def job_id(name: str) -> int | None:
    """An id out of the query of a page, which a person may have typed: None when it cannot be one."""
    text = request.args.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def page_limit(default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """The page size: 0 means the default, too large a one is cut."""
    return min(number("limit", default) or default, most)


def flag(name: str) -> bool:
    """true or false (1 or 0) out of the query, false when it is not there; Problem 400."""
    try:
        return _FLAGS[request.args.get(name, "false").lower()]
    except KeyError:
        raise Problem("bad-parameter", f"{name} is true or false.") from None


def check_known(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Problem 400, which names the first value that is not one of those known."""
    known = tuple(dict.fromkeys(known))
    for value in given:
        if value not in known:
            raise Problem("bad-parameter", f"{name} cannot be {value[:100]!r}; it is one of {', '.join(known)}.")


def instant(name: str) -> str:
    """A time out of the query, in the wire form; Problem 400."""
    try:
        return parse_instant(name, request.args[name])
    except ValueError as fault:
        raise Problem("bad-parameter", str(fault)) from None


def parse_instant(name: str, text: str) -> str:
    """A time in the wire form. ValueError, which names the usual mistake."""
    try:
        return clock.wire(clock.parse(text))
    except ValueError:
        raise ValueError(f"{name} is an RFC 3339 time with its offset. In a query a + must be written %2B.") from None
