"""Export the rows of a named query to a file: CSV, XLSX, Parquet or JSON Lines.

`sources` says what may be asked for, and by whom; `own_jobs` and `reading` hand out rows; `formats` writes them.
Memory stays as it is, however many rows there are.
"""

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields, validate

from jobs import Context, Problem, job_type
from jobs.settings import Settings
from jobs.types.report import formats, own_jobs, values
from jobs.types.report.data_file import read_sources
from jobs.types.report.sources import Catalogue, Rows, Sources
from jobs.work.job_type import JobType


_LABELS = ["CSV", "Excel (XLSX)", "Parquet", "JSON Lines"]


class _Format(validate.OneOf):
    """One of the formats, if what it needs is installed."""

    def __call__(self, value: str) -> str:
        super().__call__(value)
        if not formats.FORMATS[value].is_installed():
            raise ValidationError(formats.FORMATS[value].advice)
        return value


def declare(settings: Settings) -> list[JobType]:
    """The type, with the data sources that the settings name. SettingsError says what is wrong with their file."""
    catalogue = Catalogue([own_jobs.SOURCE, *read_sources(settings)])
    payload = {
        "source": fields.Str(required=True, validate=Sources(catalogue), metadata={
            "title": "Data source",
            "description": "A data source that the operator has named. `jobs`: this server's own jobs."}),
        "query": fields.Str(required=True, metadata={
            "title": "Query", "description": f"One of the source's queries. {catalogue.overview()}"}),
        "params": fields.Dict(keys=fields.Str(), load_default=dict, metadata={
            "title": "Parameters", "description": "The query's parameters, by name."}),
        "format": fields.Str(load_default="csv", validate=_Format(list(formats.FORMATS), labels=_LABELS), metadata={"title": "Format"}),
    }

    @job_type("report.export", title="Export a report", collection="reports", payload=payload,
              complete=catalogue.complete, cancellation="transactional",
              resource=lambda asked: {name: asked[name] for name in ("source", "query", "format")})
    def export_report(job: Context, source: str, query: str, params: dict[str, Any], format: str) -> dict[str, Any]:
        """Write all rows of a named query to one file: CSV, XLSX, Parquet or JSON Lines."""
        return export(job, catalogue, source, query, params, format)

    return [export_report]


def export(job: Context, catalogue: Catalogue, source: str, query: str, params: Mapping[str, Any],
           format: str) -> dict[str, Any]:
    """Read, write, tell. Problems: what the source refuses; Retry: it does not answer."""
    try:
        chosen = catalogue.choose(source, query, params)
    except ValidationError as fault:    # the operator has changed the sources since the job was accepted
        raise Problem("report-query-failed", f"The query can no longer be asked: {fault.messages}") from None
    form = formats.FORMATS[format]
    try:
        make = form.writer()
    except ImportError:
        raise Problem("report-format-missing", form.advice) from None
    job.stage("asking the source")
    with chosen.rows(job) as rows, job.artifact(f"{source}-{query}.{format}", form.media_type) as out:
        with make(out, rows.names, query, job.scratch("pages").parent) as writer:
            _copy(job, rows, writer)
            job.stage("finishing the file")
    return {"source": source, "query": query, "format": format, "rows": writer.rows, "sheets": writer.sheets,
            "warnings": writer.warnings, "artifact": out.href, "download_url": out.url, "expires_at": out.expires_at}


def _copy(job: Context, rows: Rows, writer: formats.Writer) -> None:
    """Every row, a batch at a time."""
    job.progress(0, rows.total, stage="writing rows")
    for batch in rows.batches:
        writer.write([values.column(cells) for cells in zip(*batch, strict=True)])
        writer.rows += len(batch)
        job.progress(writer.rows, rows.total)
