"""The formats of a report: one file each, and one entry here. A format's own library is loaded when it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from jobs.types.report.values import Column


class Writer:
    """Writes batches of columns to an open file. Use as a context manager; leaving it normally completes the file."""

    def __init__(self, out: IO, names: list[str], title: str, folder: Path):
        self.out, self.names, self.title, self.folder = out, names, title, folder
        self.rows = 0                                       # kept by the caller
        self.sheets: list[dict[str, Any]] | None = None     # {"name", "rows"}, where a format has sheets
        self.warnings: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.complete()

    def write(self, columns: list[Column]) -> None:
        """One batch: a column for each name."""

    def complete(self) -> None:
        """Write what belongs at the end."""


@dataclass(frozen=True)
class Format:
    """`home` is the module and class that write it; `needs` a package that `./run install EXTRA` brings."""

    media_type: str
    home: str
    needs: str | None = None
    extra: str | None = None

    def writer(self) -> Callable[[IO, list[str], str, Path], Writer]:
        """The class that writes it."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"{__name__}.{module}"), name)

    def is_installed(self) -> bool:
        """Whether it can be written here, without loading what it needs."""
        return self.needs is None or find_spec(self.needs) is not None

    @property
    def advice(self) -> str:
        """What to say when it cannot."""
        return f"This format needs {self.needs}, which this server does not have. ./run install {self.extra} brings it."


FORMATS = {
    "csv": Format("text/csv", "csv_file:CsvWriter"),
    "xlsx": Format("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx_file:XlsxWriter"),
    "parquet": Format("application/vnd.apache.parquet", "parquet_file:ParquetWriter", needs="pyarrow", extra="parquet"),
    "jsonl": Format("application/jsonl", "jsonl_file:JsonLinesWriter"),
}
