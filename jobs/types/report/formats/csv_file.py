"""CSV for people and spreadsheets: UTF-8 with a byte order mark, RFC 4180, and no cell that a spreadsheet would run."""

import csv
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from jobs.types.report.formats import Writer
from jobs.types.report.values import Column, text

_AS_THEY_ARE = frozenset({type(None), int, float, str})
_FORMULA = frozenset("=+-@\t\r")
_first = itemgetter(slice(1))


class CsvWriter(Writer):
    """Text that begins like a formula gets a `'` before it; numbers stay numbers."""

    def __init__(self, out: IO[str], names: list[str], title: str, folder: Path):
        super().__init__(out, names, title, folder)
        out.write("\ufeff")
        self._csv = csv.writer(out)
        self._csv.writerow([_disarmed(name) for name in names])

    def write(self, columns: list[Column]) -> None:
        self._csv.writerows(zip(*map(_cells, columns), strict=True))


def _cells(column: Column) -> tuple[Any, ...] | list[Any]:
    cells, kinds = column
    if not kinds <= _AS_THEY_ARE:
        cells = [cell if type(cell) in _AS_THEY_ARE else text(cell) for cell in cells]
    if str in kinds:
        texts = cells if len(kinds) == 1 else [cell for cell in cells if type(cell) is str]
        if not _FORMULA.isdisjoint(map(_first, texts)):
            cells = [_disarmed(cell) if type(cell) is str else cell for cell in cells]
    return cells


def _disarmed(cell: str) -> str:
    return f"'{cell}" if cell[:1] in _FORMULA else cell
