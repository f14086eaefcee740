"""Export articles: Markdown set as a PDF, one HTML page or an EPUB.

The articles are a topic of the operator's folder, a text in the request, or uploaded files. What reads and sets them is
a program of its own (`press`), so that a text which takes too long or too much memory costs neither worker nor server.
"""

import shutil
from collections.abc import Mapping
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, validate, validates_schema

from jobs import Context, Problem, job_type
from jobs.settings import Settings, SettingsError
from jobs.types.article import sources
from jobs.types.article.order import Order, carry_out

MEDIA_TYPES = {"pdf": "application/pdf", "html": "text/html; charset=utf-8", "epub": "application/epub+zip"}
MAX_FILES = 200
_SOURCES = ("topic", "markdown", "files")


class Payload(Schema):
    """What to export, and as what."""

    class Meta:
        unknown = RAISE

    format = fields.Str(required=True, validate=validate.OneOf(list(MEDIA_TYPES), labels=["PDF", "Web page (HTML)", "E-book (EPUB)"]), metadata={
        "title": "Format", "description": "pdf: pages; html: one page with everything inside; epub: an e-book."})
    topic = fields.Str(validate=validate.Regexp(sources.TOPIC, error="This cannot be the name of a topic."), metadata={
        "title": "Topic", "description": "A folder of articles on this server, such as linux."})
    markdown = fields.Str(validate=validate.Length(1, 1_000_000), metadata={
        "title": "Markdown",
        "description": "Instead of a topic: the article itself. Front matter may say title, author, date, lang."})
    files = fields.List(fields.Str(), validate=validate.Length(1, MAX_FILES), metadata={
        "input": True, "title": "Files",
        "description": "Instead of a topic: what POST /v1/files answered for Markdown files and their pictures."})
    title = fields.Str(validate=validate.Length(1, 200), metadata={
        "title": "Title", "description": "If not said: that of the article, or the topic."})

    @validates_schema
    def one_source(self, data: Mapping[str, Any], **_: Any) -> None:
        """There is one source, and one only."""
        given = [name for name in _SOURCES if name in data]
        if not given:
            raise ValidationError("Say what to export: a topic, markdown, or files.")
        if given[1:]:
            raise ValidationError({name: [f"Give either this or {given[0]}."] for name in given[1:]})


def check_folders(settings: Settings) -> None:
    """At the start: what the operator named must be there. SettingsError says what to do."""
    for name, what in (("ARTICLES_DIR", "a folder of Markdown files for each topic"), ("FONTS_DIR", "typefaces")):
        folder = getattr(settings, name.lower())
        if folder and not folder.is_dir():
            raise SettingsError(f"ACCEPTED_{name}={str(folder)!r}: there is no such folder. "
                                f"Make it, with {what} inside, or leave ACCEPTED_{name} unset.")


def check_topic(payload: Mapping[str, Any], settings: Settings) -> None:
    """At submission: the topic must have articles. ValidationError says what else can be done."""
    if "topic" in payload:
        try:
            sources.of_topic(settings, payload["topic"])
        except sources.NoTopic as reason:
            raise ValidationError({"topic": [str(reason)]}) from None


@job_type("article.export", title="Export articles", collection="article-exports", payload=Payload, check=check_topic,
          at_start=check_folders, cancellation="transactional",
          resource=lambda payload: {name: payload[name] for name in ("format", "topic", "title") if name in payload})
def export_articles(job: Context, format: str, topic: str | None = None, markdown: str | None = None,
                    files: list[str] | None = None, title: str | None = None):
    """Make one PDF, HTML page or EPUB of Markdown articles: a topic, a text, or uploaded files with their pictures.

    The result's `download_url` opens without a key until `expires_at`.
    """
    job.progress(0, 100, stage="reading")
    if topic is not None:
        order = Order(format, title or topic, *sources.of_topic_or_problem(job, topic))
    elif files is not None:
        order = Order(format, title, *sources.of_files(job, files))
    else:
        order = Order(format, title, *sources.of_text(job, markdown or ""))
    made = carry_out(job, order)
    job.progress(90, 100, stage="writing")
    name = f"{made.title.replace('/', '-').strip()[:80] or 'articles'}.{format}"
    with job.artifact(name, MEDIA_TYPES[format]) as out, made.path.open("rb") as file:
        shutil.copyfileobj(file, getattr(out, "buffer", out))
    return {"download_url": out.url, "expires_at": out.expires_at, "artifact": out.href, "format": format,
            "title": made.title, "articles": made.articles, "size": made.path.stat().st_size, "warnings": made.warnings}
