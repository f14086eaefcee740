"""XLSX in constant memory: rows go to temporary files, text is no formula, and a long report has several sheets."""

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import xlsxwriter

from jobs.errors import Problem
from jobs.types.report.formats import Writer
from jobs.types.report.values import Column, text

ROWS = 1_048_576        # of a sheet, the line of names included
COLUMNS = 16_384
CHARACTERS = 32_767     # of a cell, as UTF-16 counts them
_DIGITS = 15            # that Excel keeps of a number
_FIRST_DAY = date(1900, 3, 1)       # Excel's calendar has a 29th of February 1900
_FORMATS = {datetime: "yyyy-mm-dd hh:mm:ss", date: "yyyy-mm-dd", time: "hh:mm:ss"}


class XlsxWriter(Writer):
    """What Excel cannot hold as a number or a date is written as text; what is too long is cut, with a warning."""

    def __init__(self, out: IO[bytes], names: list[str], title: str, folder: Path, rows: int = ROWS):
        super().__init__(out, names, title, folder)
        if len(names) > COLUMNS:
            raise Problem("report-query-failed", f"The query has {len(names)} columns; a sheet has {COLUMNS} at most.")
        self.sheets = []
        self._most = rows
        self._book = xlsxwriter.Workbook(out, {"constant_memory": True, "tmpdir": str(folder)})
        self._book.use_zip64()
        self._formats = {kind: self._book.add_format({"num_format": form}) for kind, form in _FORMATS.items()}
        self._cut: dict[str, list[int]] = {}        # column → [how many cells, row of the first]
        self._begin()

    def write(self, columns: list[Column]) -> None:
        for row in zip(*(column.cells for column in columns), strict=True):
            if self._line == self._most:
                self._begin()
            self._row(row)

    def complete(self) -> None:
        self._book.close()
        self.warnings += [
            f"{name}: {number} cell{'s were' if number > 1 else ' was'} cut to {CHARACTERS} characters, "
            f"the first in row {first}."
            for name, (number, first) in self._cut.items()]

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            for sheet in self._book.worksheets():      # closed already, unless something was raised
                sheet.row_data_fh.close()
            self._book.fileclosed = True

    def _begin(self) -> None:
        """Another sheet, with the names of the columns at its top."""
        name = f"{self.title[:24]} {len(self.sheets) + 1}"
        self._sheet = self._book.add_worksheet(name)
        self.sheets.append({"name": name, "rows": 0})
        self._line = 0
        self._row(self.names)
        self.sheets[-1]["rows"] = 0

    def _row(self, row: tuple[Any, ...] | list[str]) -> None:
        line = self._line
        for place, cell in enumerate(row):
            if cell is not None:
                self._PUT[type(cell)](self, line, place, cell)
        self._line += 1
        self.sheets[-1]["rows"] += 1

    # One cell

    def _text(self, line: int, place: int, cell: Any) -> None:
        words = cell if type(cell) is str else text(cell)
        if len(words) > CHARACTERS // 2:        # characters beyond U+FFFF count twice
            words = self._fitting(words, place)
        self._sheet.write_string(line, place, words)

    def _fitting(self, words: str, place: int) -> str:
        units = words.encode("utf-16-le", errors="replace")
        if len(units) <= 2 * CHARACTERS:
            return words
        cut = self._cut.setdefault(self.names[place], [0, sum(sheet["rows"] for sheet in self.sheets) + 1])
        cut[0] += 1
        return units[:2 * CHARACTERS].decode("utf-16-le", errors="ignore")

    def _integer(self, line: int, place: int, cell: int) -> None:
        if abs(cell) < 10 ** _DIGITS:
            self._sheet.write_number(line, place, cell)
        else:
            self._text(line, place, cell)

    def _float(self, line: int, place: int, cell: float) -> None:
        if math.isfinite(cell):
            self._sheet.write_number(line, place, cell)
        else:
            self._text(line, place, cell)

    def _decimal(self, line: int, place: int, cell: Decimal) -> None:
        if cell.is_finite() and len(cell.normalize().as_tuple().digits) <= _DIGITS and abs(cell.adjusted()) < 300:
            self._sheet.write_number(line, place, float(cell))
        else:
            self._text(line, place, cell)

    def _boolean(self, line: int, place: int, cell: bool) -> None:
        self._sheet.write_boolean(line, place, cell)

    def _moment(self, line: int, place: int, cell: date | datetime | time) -> None:
        day = cell.date() if isinstance(cell, datetime) else cell
        if isinstance(day, date) and day < _FIRST_DAY:
            self._text(line, place, cell)
            return
        bare = cell if type(cell) is date else cell.replace(tzinfo=None)
        self._sheet.write_datetime(line, place, bare, self._formats[type(cell)])

    _PUT: dict[type, Callable[["XlsxWriter", int, int, Any], None]] = {
        str: _text, int: _integer, float: _float, Decimal: _decimal, bool: _boolean, bytes: _text, date: _moment,
        datetime: _moment, time: _moment}
