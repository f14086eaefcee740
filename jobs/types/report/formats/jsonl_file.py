"""JSON Lines: one object a row, UTF-8."""

import json
import math
from typing import Any

from jobs.types.report.formats import Writer
from jobs.types.report.values import Column, text

_AS_THEY_ARE = frozenset({type(None), bool, int, str})


class JsonLinesWriter(Writer):
    """Whole numbers keep all digits; decimals are text, so that no reader rounds them; NaN and infinity are null."""

    def write(self, columns: list[Column]) -> None:
        encode, names = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode, self.names
        rows = zip(*map(_cells, columns), strict=True)
        lines = "".join([encode(dict(zip(names, row, strict=True))) + "\n" for row in rows])
        self.out.write(lines.encode("utf-8", errors="replace"))


def _cells(column: Column) -> tuple[Any, ...] | list[Any]:
    if column.kinds <= _AS_THEY_ARE:
        return column.cells
    return [cell if type(cell) in _AS_THEY_ARE else _json(cell) for cell in column.cells]


def _json(cell: Any) -> Any:
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return text(cell)
