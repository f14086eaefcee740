"""Each format, written batch by batch and read again by another library."""

import csv
import io
import json
import math
import zipfile
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from python_calamine import CalamineWorkbook

from jobs.types.report import values
from jobs.types.report.formats import FORMATS

HUGE = 12345678901234567890123
LATE = datetime(2026, 3, 1, 10, 30, tzinfo=timezone(timedelta(hours=2)))
KINDS = {
    "text": "Grüße, 世界", "whole": -7, "huge": HUGE, "real": -0.25, "decimal": Decimal("-12.50"), "yes": True,
    "bytes": b"\x00\xff", "day": date(2026, 3, 1), "instant": LATE, "local": datetime(2026, 3, 1, 10, 30, 0, 500_000),
    "hour": time(8, 5), "span": timedelta(days=-1, seconds=1), "json": {"a": ["ü", Decimal("1.5")]},
    "uuid": UUID(int=5), "null": None, "nan": float("nan")}


def write(tmp_path, format, names, *batches, **given):
    """The file's bytes, and its writer."""
    form = FORMATS[format]
    out = io.StringIO(newline="") if form.media_type.startswith("text/") else io.BytesIO()
    with form.writer()(out, names, "orders", tmp_path, **given) as writer:
        for rows in batches:
            writer.write([values.column(cells) for cells in zip(*rows, strict=True)])
            writer.rows += len(rows)
    made = out.getvalue()
    return made.encode() if isinstance(made, str) else made, writer


def read_csv(data):
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def read_xlsx(data):
    book = CalamineWorkbook.from_filelike(io.BytesIO(data))
    return {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}


def read_parquet(data):
    from pyarrow import parquet
    return parquet.read_table(io.BytesIO(data))


def every_kind(tmp_path, format):
    return write(tmp_path, format, list(KINDS), [tuple(KINDS.values()), (None,) * len(KINDS)])[0]


# CSV

def test_csv_of_every_kind(tmp_path):
    data = every_kind(tmp_path, "csv")
    names, row, empty = read_csv(data)
    assert data.startswith(b"\xef\xbb\xbf") and data.endswith(b"\r\n") and names == list(KINDS)
    assert dict(zip(names, row, strict=True)) == {
        "text": "Grüße, 世界", "whole": "-7", "huge": str(HUGE), "real": "-0.25", "decimal": "-12.50", "yes": "true",
        "bytes": "00ff", "day": "2026-03-01", "instant": "2026-03-01T08:30:00Z", "local": "2026-03-01T10:30:00.500000",
        "hour": "08:05:00", "span": "-86399.0", "json": '{"a": ["ü", "1.5"]}',
        "uuid": "00000000-0000-0000-0000-000000000005", "null": "", "nan": "nan"}
    assert set(empty) == {""}


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x")'])
def test_csv_disarms_what_a_spreadsheet_would_run(tmp_path, cell):
    rows = [(cell, 1, cell), ("plain = text", -2, None), ("", -0.5, 7)]
    _, first, second, third = read_csv(write(tmp_path, "csv", ["a", "b", "c"], rows)[0])
    assert first == [f"'{cell}", "1", f"'{cell}"]
    assert (second, third) == (["plain = text", "-2", ""], ["", "-0.5", "7"])


def test_csv_disarms_the_names_of_columns_and_keeps_what_needs_quotes(tmp_path):
    data, _ = write(tmp_path, "csv", ["=cmd", "b"], [('say "hi",\r\nthen\ngo', "x")])
    assert read_csv(data) == [["'=cmd", "b"], ['say "hi",\r\nthen\ngo', "x"]]


# JSON Lines

def test_json_lines_of_every_kind(tmp_path):
    row, empty = [json.loads(line) for line in every_kind(tmp_path, "jsonl").decode().splitlines()]
    assert row == {
        "text": "Grüße, 世界", "whole": -7, "huge": HUGE, "real": -0.25, "decimal": "-12.50", "yes": True, "bytes": "00ff",
        "day": "2026-03-01", "instant": "2026-03-01T08:30:00Z", "local": "2026-03-01T10:30:00.500000", "hour": "08:05:00",
        "span": -86399.0, "json": '{"a": ["ü", "1.5"]}', "uuid": "00000000-0000-0000-0000-000000000005", "null": None,
        "nan": None}
    assert empty == dict.fromkeys(KINDS)


# XLSX

def test_xlsx_of_every_kind(tmp_path):
    [(name, (names, row))] = read_xlsx(every_kind(tmp_path, "xlsx")).items()
    found = dict(zip(names, row, strict=True))
    assert name == "orders 1"
    assert {name: found[name] for name in KINDS} == {
        "text": "Grüße, 世界", "whole": -7, "huge": str(HUGE), "real": -0.25, "decimal": -12.5, "yes": True, "bytes": "00ff",
        "day": date(2026, 3, 1), "instant": datetime(2026, 3, 1, 8, 30), "local": datetime(2026, 3, 1, 10, 30, 0, 500_000),
        "hour": time(8, 5), "span": -86399, "json": '{"a": ["ü", "1.5"]}', "uuid": "00000000-0000-0000-0000-000000000005",
        "null": "", "nan": "nan"}


def test_xlsx_writes_what_excel_cannot_hold_as_text(tmp_path):
    rows = [(10**15 - 1, 10**15, Decimal("1234567890.123456"), date(1899, 12, 31), datetime(1815, 6, 18, 11))]
    data, _ = write(tmp_path, "xlsx", ["a", "b", "c", "d", "e"], rows)
    assert read_xlsx(data)["orders 1"][1] == [
        10**15 - 1, "1000000000000000", "1234567890.123456", "1899-12-31", "1815-06-18T11:00:00"]


def test_xlsx_never_holds_a_formula_or_a_link(tmp_path):
    data, _ = write(tmp_path, "xlsx", ["a"], [("=1+1",), ("http://example.org/",), ("{=1}",)])
    sheet = zipfile.ZipFile(io.BytesIO(data)).read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet and "hyperlink" not in sheet
    assert [row[0] for row in read_xlsx(data)["orders 1"][1:]] == ["=1+1", "http://example.org/", "{=1}"]


def test_xlsx_goes_on_on_another_sheet(tmp_path):
    batches = [[(number,) for number in range(start, start + 4)] for start in (0, 4, 8)]
    data, writer = write(tmp_path, "xlsx", ["n"], *batches, rows=6)
    sheets = read_xlsx(data)
    assert {name: len(rows) for name, rows in sheets.items()} == {"orders 1": 6, "orders 2": 6, "orders 3": 3}
    assert [row[0] for rows in sheets.values() for row in rows[1:]] == list(range(12))
    assert all(rows[0] == ["n"] for rows in sheets.values())
    assert writer.sheets == [{"name": "orders 1", "rows": 5}, {"name": "orders 2", "rows": 5}, {"name": "orders 3", "rows": 2}]


def test_xlsx_splits_1_048_577_rows_over_two_sheets(tmp_path):
    """Most are empty, which is quick; bench/reports.py --sheets does it with a number in each."""
    total, last = 1_048_577, 1_048_576      # rows of the report; of a sheet, the line of names included
    told = {0: "first", last - 2: "last of the first sheet", last - 1: "first of the second", total - 1: "last"}
    batches = ([(told.get(number),) for number in range(start, min(start + 5000, total))] for start in range(0, total, 5000))
    data, writer = write(tmp_path, "xlsx", ["n"], *batches)
    assert writer.sheets == [{"name": "orders 1", "rows": last - 1}, {"name": "orders 2", "rows": 2}] and writer.rows == total
    first, second = read_xlsx(data).values()
    assert len(first) == last and [row for row in first if row != [""]] == [["n"], ["first"], ["last of the first sheet"]]
    assert first[-1] == ["last of the first sheet"] and second == [["n"], ["first of the second"], ["last"]]


def test_xlsx_of_exactly_one_sheet_has_no_empty_second(tmp_path):
    data, writer = write(tmp_path, "xlsx", ["n"], [(1,), (2,)], rows=3)
    assert list(read_xlsx(data)) == ["orders 1"] and writer.sheets == [{"name": "orders 1", "rows": 2}]


def test_xlsx_cuts_what_is_too_long_and_says_so(tmp_path):
    limit = 32_767
    rows = [("x" * limit, "a"), ("y" * (limit + 1), "😀" * limit), ("z" * 99_999, "b")]
    data, writer = write(tmp_path, "xlsx", ["note", "smile"], rows)
    cells = read_xlsx(data)["orders 1"][1:]
    assert [len(row[0]) for row in cells] == [limit] * 3
    assert cells[1][1] == "😀" * (limit // 2)      # Excel counts each twice
    assert writer.warnings == ["note: 2 cells were cut to 32767 characters, the first in row 2.",
                               "smile: 1 cell was cut to 32767 characters, the first in row 2."]


def test_xlsx_leaves_nothing_open_when_it_is_broken_off(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with FORMATS["xlsx"].writer()(io.BytesIO(), ["n"], "orders", tmp_path) as writer:
            writer.write([values.column((1, 2))])
            raise KeyboardInterrupt
    assert all(sheet.row_data_fh.closed for sheet in writer._book.worksheets())


# Parquet

parquet_extra = pytest.mark.extra("parquet", "pyarrow")


@parquet_extra
def test_parquet_of_every_kind(tmp_path):
    table = read_parquet(every_kind(tmp_path, "parquet"))
    assert {field.name: str(field.type) for field in table.schema} == {
        "text": "string", "whole": "int64", "huge": "decimal128(38, 0)", "real": "double", "decimal": "decimal128(38, 2)",
        "yes": "bool", "bytes": "binary", "day": "date32[day]", "instant": "timestamp[us, tz=UTC]", "local": "timestamp[us]",
        "hour": "time64[us]", "span": "double", "json": "string", "uuid": "string", "null": "null", "nan": "double"}
    row, empty = table.to_pylist()
    assert math.isnan(row.pop("nan")) and set(empty.values()) == {None}
    assert row == {name: value for name, value in KINDS.items() if name != "nan"} | {
        "instant": LATE, "span": -86399.0, "json": '{"a": ["ü", "1.5"]}', "uuid": str(UUID(int=5))}


@parquet_extra
@pytest.mark.parametrize(("cells", "type_", "read"), [
    ([None, 1, None, 2], "int64", [None, 1, None, 2]),
    ([1, 2.5, None, 3], "double", [1.0, 2.5, None, 3.0]),
    ([1, 2**63, Decimal("1.5"), None], "decimal128(38, 1)", [Decimal("1.0"), Decimal(2**63), Decimal("1.5"), None]),
    ([Decimal("1.5"), Decimal("2.25"), 7, Decimal("1E+2")], "decimal128(38, 2)", [Decimal("1.5"), Decimal("2.25"), 7, 100]),
    ([1, "two", 3.0, True], "string", ["1", "two", "3.0", "true"]),
    ([b"\x01", "x", None, date(2026, 3, 1)], "string", ["01", "x", None, "2026-03-01"]),
    ([datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), None, None], "string",
     ["2026-01-01T00:00:00", "2026-01-01T00:00:00Z", None, None]),
    ([1, 10**40, None, None], "string", ["1", str(10**40), None, None]),
    ([Decimal("1.5"), Decimal("NaN"), None, None], "string", ["1.5", "NaN", None, None]),
])
def test_parquet_widens_the_schema_when_something_new_comes(tmp_path, monkeypatch, cells, type_, read):
    from jobs.types.report.formats import parquet_file
    for group in (1, 4):    # each cell a row group of its own, and all of them in one
        monkeypatch.setattr(parquet_file, "_GROUP", group)
        data, _ = write(tmp_path, "parquet", ["n"], *([(cell,)] for cell in cells))
        table = read_parquet(data)
        assert str(table.schema.field("n").type) == type_
        assert table.column("n").to_pylist() == read


@pytest.mark.parametrize("format", ["csv", "jsonl", "xlsx", pytest.param("parquet", marks=parquet_extra)])
def test_a_report_without_rows_still_has_its_columns(tmp_path, format):
    data, writer = write(tmp_path, format, ["a", "b"])
    found = {"csv": lambda: read_csv(data), "jsonl": lambda: data, "xlsx": lambda: read_xlsx(data),
             "parquet": lambda: read_parquet(data).schema.names}[format]()
    assert found == {"csv": [["a", "b"]], "jsonl": b"", "xlsx": {"orders 1": [["a", "b"]]}, "parquet": ["a", "b"]}[format]
    assert writer.rows == 0 and writer.warnings == []
