"""Parquet, whose schema stands before the first row, out of rows that show only as they come what they hold.

Rows are written with the narrowest schema that holds what has come so far. When something comes that does not fit, a
new piece with a wider schema begins; in the end several pieces are copied into one file with the widest. That is rare:
most databases keep to one type in a column.
"""

import shutil
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from jobs.types.report.formats import Writer
from jobs.types.report.values import Column, text

_GROUP = 20_000     # rows in memory, and in a row group
_INT64 = range(-2**63, 2**63)
_DIGITS = 38        # of a decimal128


class Kind(NamedTuple):
    """What a column has to hold. Of decimals: digits before and after the point."""

    name: str
    whole: int = 0
    scale: int = 0

    def arrow(self) -> pa.DataType:
        return pa.decimal128(_DIGITS, self.scale) if self.name == "decimal" else _ARROW[self.name]


NOTHING, TEXT = Kind("nothing"), Kind("text")
_ARROW = {
    "nothing": pa.null(), "boolean": pa.bool_(), "integer": pa.int64(), "float": pa.float64(), "text": pa.string(),
    "bytes": pa.binary(), "date": pa.date32(), "time": pa.time64("us"), "datetime": pa.timestamp("us"),
    "instant": pa.timestamp("us", tz="UTC")}
_NAMES = {bool: "boolean", float: "float", str: "text", bytes: "bytes", date: "date", time: "time"}


def wider(one: Kind, other: Kind) -> Kind:
    """The narrowest kind that holds both: all goes into text."""
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if {one.name, other.name} == {"integer", "float"}:
        return Kind("float")
    if {one.name, other.name} <= {"integer", "decimal"}:
        return _decimal(max(one.whole or 19, other.whole or 19), max(one.scale, other.scale))
    return TEXT


def _decimal(whole: int, scale: int) -> Kind:
    return Kind("decimal", whole, scale) if whole + scale <= _DIGITS else TEXT


def kind_of(column: Column) -> Kind:
    """What one batch of a column needs."""
    found = NOTHING
    for type_ in column.kinds - {type(None)}:
        found = wider(found, _kind(type_, [cell for cell in column.cells if type(cell) is type_]))
    return found


def _kind(type_: type, cells: list[Any]) -> Kind:
    if type_ is int:
        lowest, highest = min(cells), max(cells)
        fits = lowest in _INT64 and highest in _INT64
        return Kind("integer") if fits else _decimal(max(len(str(abs(lowest))), len(str(highest))), 0)
    if type_ is Decimal:
        if not all(map(Decimal.is_finite, cells)):
            return TEXT
        shapes = [cell.as_tuple() for cell in cells]
        scale = max(0, -min(shape.exponent for shape in shapes))
        return _decimal(max(1, *(len(shape.digits) + shape.exponent for shape in shapes)), scale)
    if type_ is datetime:
        aware = {cell.tzinfo is not None for cell in cells}
        return TEXT if len(aware) > 1 else Kind("instant" if aware == {True} else "datetime")
    return Kind(_NAMES[type_])


def _array(cells: Iterable[Any], kind: Kind) -> pa.Array:
    if kind == TEXT:
        cells = [cell if cell is None or type(cell) is str else text(cell) for cell in cells]
    elif kind.name == "float":
        cells = [cell if cell is None else float(cell) for cell in cells]
    elif kind.name == "decimal":
        cells = [cell if cell is None else Decimal(cell) for cell in cells]
    return pa.array(cells, kind.arrow())


class ParquetWriter(Writer):
    """One row group for every 20,000 rows."""

    def __init__(self, out: IO[bytes], names: list[str], title: str, folder: Path):
        super().__init__(out, names, title, folder)
        self._kinds = [NOTHING] * len(names)
        self._batches: list[list[Column]] = []
        self._waiting = 0
        self._pieces: list[tuple[Path, list[Kind]]] = []
        self._piece: parquet.ParquetWriter | None = None

    def write(self, columns: list[Column]) -> None:
        self._batches.append(columns)
        self._waiting += len(columns[0].cells)
        if self._waiting >= _GROUP:
            self._flush()

    def complete(self) -> None:
        self._flush()
        self._end_piece()
        if len(self._pieces) == 1:
            with self._pieces[0][0].open("rb") as piece:
                shutil.copyfileobj(piece, self.out, 1 << 20)
            return
        with parquet.ParquetWriter(self.out, self._schema()) as whole:
            for path, kinds in self._pieces:
                with parquet.ParquetFile(path) as piece:
                    for number in range(piece.num_row_groups):
                        whole.write_table(self._widened(piece.read_row_group(number, use_threads=False), kinds))

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._end_piece()

    def _flush(self) -> None:
        """Write what waits, in a new piece if the one that is open is too narrow."""
        if not self._batches:
            return
        cells = [[cell for columns in self._batches for cell in columns[place].cells]
                 for place in range(len(self.names))]
        kinds = list(self._kinds)
        for columns in self._batches:
            kinds = [wider(kind, kind_of(column)) for kind, column in zip(kinds, columns, strict=True)]
        self._batches, self._waiting = [], 0
        if kinds != self._kinds or self._piece is None:
            self._end_piece()
            self._kinds = kinds
            path = self.folder / f"piece-{len(self._pieces)}.parquet"
            self._piece = parquet.ParquetWriter(path, self._schema())
            self._pieces.append((path, kinds))
        self._piece.write_table(self._table([_array(column, kind) for column, kind in zip(cells, kinds, strict=True)]))

    def _end_piece(self) -> None:
        piece, self._piece = self._piece, None
        if piece is not None:
            piece.close()

    def _widened(self, table: pa.Table, kinds: list[Kind]) -> pa.Table:
        """A row group of an earlier piece, fit for the last schema."""
        if kinds == self._kinds:
            return table
        return self._table([
            column.combine_chunks() if kind == last else _array(column.to_pylist(), last)
            for column, kind, last in zip(table.columns, kinds, self._kinds, strict=True)])

    def _table(self, arrays: list[pa.Array]) -> pa.Table:
        return pa.Table.from_arrays(arrays, schema=self._schema())

    def _schema(self) -> pa.Schema:
        return pa.schema([(name, kind.arrow()) for name, kind in zip(self.names, self._kinds, strict=True)])
