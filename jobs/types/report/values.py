"""What databases hand out, brought down to a few kinds of value that every format knows.

After `column` a cell is None, bool, int, float, Decimal, str, bytes, date, datetime (in UTC, or without a zone) or
time. A column is looked at as a whole: nearly always one kind fills it, and then no cell is touched.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

_PLAIN = frozenset({type(None), bool, int, float, Decimal, str, bytes, date, time})


class Column(NamedTuple):
    """The cells of one column in one batch, and the types that occur among them."""

    cells: tuple[Any, ...]
    kinds: set[type]


def column(cells: tuple[Any, ...]) -> Column:
    """The cells as plain values."""
    kinds = set(map(type, cells))
    if kinds <= _PLAIN:
        return Column(cells, kinds)
    cells = tuple(cell if type(cell) in _PLAIN else _plain(cell) for cell in cells)
    return Column(cells, set(map(type, cells)))


def text(value: Any) -> str:
    """A plain value as text, the same in every format: ISO 8601, digits, lower-case hexadecimal."""
    return _TEXTS[type(value)](value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=lambda inner: text(_plain(inner)))
    for kind in (bool, int, float, Decimal, str, bytes, date, time):      # subclasses, such as enumerations
        if isinstance(value, kind):
            return kind(value) if kind in (int, float, Decimal, str, bytes) else value
    return str(value)


def _instant(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "", bool: lambda value: "true" if value else "false", int: str, float: repr,
    Decimal: lambda value: format(value, "f"), str: str, bytes: bytes.hex, date: date.isoformat, datetime: _instant,
    time: time.isoformat}
