"""CSV export against a bare `csv.writer` loop over the same cursor; with --sheets the split of 1,048,577 rows in XLSX.

    python bench/reports.py [rounds]        about 20 s for each round
    python bench/reports.py --sheets        one or two minutes

Prints one JSON object. `export` is our pipeline with its checks of every cell, without the count and without a server;
`bare` reads the same streamed result row by row; `driver` reads the driver's own cursor, without SQLAlchemy. Each ratio
is theirs over ours in seconds of CPU (the machine is shared): 1 means that our care costs nothing. Best of each.
"""

import csv
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs.types.report import formats, reading, values
from jobs.types.report.sources import Query, Source

ROWS = 1_000_000
SQL = """SELECT id, customer, total, placed, status, items FROM orders ORDER BY id"""
FILL = f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
INSERT INTO orders SELECT i, 'customer ' || i, i * 0.25, date('2026-01-01', i % 300 || ' days'),
                          CASE WHEN i % 7 = 0 THEN NULL ELSE 'open' END, i % 9 FROM n"""


class NoJob:
    """Nobody cancels a bench."""

    cancelled = False

    def check(self) -> None:
        """Go on."""


def main(rounds: int) -> None:
    """Each in turn, so that a busy machine disturbs them alike."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with sqlite3.connect(folder / "shop.db") as shop:
            shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer, total, placed, status, items)")
            shop.execute(FILL)
        shop.close()
        spent: dict[str, list[float]] = {"export": [], "bare": [], "driver": []}
        for _ in range(rounds):
            for way, function in (("export", export), ("bare", bare), ("driver", driver)):
                spent[way].append(timed(function, folder))
    best = {way: min(seconds) for way, seconds in spent.items()}
    ratios = {f"ratio to {way}": round(best[way] / best["export"], 3) for way in ("bare", "driver")}
    print(json.dumps({"rows": ROWS} | {way: round(seconds, 2) for way, seconds in best.items()} | ratios))


def timed(function, folder: Path) -> float:
    """Seconds of CPU."""
    start = time.process_time()
    with (folder / "out.csv").open("w", encoding="utf-8", newline="") as out:
        function(folder, out)
    return time.process_time() - start


def export(folder: Path, out) -> None:
    """As the job does it."""
    source = Source("shop", {}, url=f"sqlite:///{folder}/shop.db")
    with reading.open_(NoJob(), source, Query("orders", SQL, count=False), {}) as rows:
        with formats.FORMATS["csv"].writer()(out, rows.names, "orders", folder) as writer:
            for batch in rows.batches:
                writer.write([values.column(cells) for cells in zip(*batch, strict=True)])


def bare(folder: Path, out) -> None:
    """The same streamed result, row by row."""
    from sqlalchemy import create_engine, text
    with create_engine(f"sqlite:///{folder}/shop.db").connect() as connection:
        result = connection.execution_options(stream_results=True, yield_per=500).execute(text(SQL))
        writer = csv.writer(out)
        writer.writerow(result.keys())
        for row in result:
            writer.writerow(row)


def driver(folder: Path, out) -> None:
    """The driver's cursor, row by row."""
    connection = sqlite3.connect(folder / "shop.db")
    writer = csv.writer(out)
    for row in connection.execute(SQL):
        writer.writerow(row)
    connection.close()


def sheets() -> None:
    """Excel's own limit, which is too slow to be tested each time: 1,048,577 rows fill one sheet and begin another."""
    from python_calamine import CalamineWorkbook
    total = 1_048_577
    with tempfile.TemporaryDirectory() as name:
        file, start = Path(name) / "long.xlsx", time.process_time()
        with file.open("wb") as out, formats.FORMATS["xlsx"].writer()(out, ["n"], "orders", Path(name)) as writer:
            for first in range(0, total, 500):
                writer.write([values.column(tuple(range(first, min(first + 500, total))))])
        seconds = time.process_time() - start
        book = CalamineWorkbook.from_path(file)
        found = {sheet: book.get_sheet_by_name(sheet).to_python() for sheet in book.sheet_names}
    assert [row[0] for rows in found.values() for row in rows[1:]] == list(range(total))
    print(json.dumps({"sheets": {sheet: len(rows) for sheet, rows in found.items()}, "told": writer.sheets,
                      "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    if "--sheets" in sys.argv:
        sheets()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
