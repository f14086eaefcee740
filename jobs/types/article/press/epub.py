"""The EPUB 3: a zip of XHTML chapters, a navigation document and a package document that names them."""

import re
import uuid
import zipfile
from html import escape
from pathlib import Path

from jobs import clock
from jobs.types.article.press.book import Book, walk
from jobs.types.article.press.markup import Markup

_MEDIA = {"svg": "image/svg+xml", "jpg": "image/jpeg"}
_CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""


def write(book: Book, folder: Path, target: Path) -> None:
    """Write the book; its pictures lie in `folder`/pictures."""
    files = {chapter.id: f"chapter-{number}.xhtml" for number, chapter in enumerate(book.chapters, 1)}
    where = {id: files[chapter.id] for chapter in book.chapters for id in _ids(chapter)}
    markup = Markup(book, lambda id: f"{where[id]}#{id}", lambda name: f"pictures/{name}", top=1)
    documents = {}
    if not book.single:
        documents["title.xhtml"] = _document(book, book.title, book.language.tag, _title(book, markup))
    for chapter in book.chapters:
        body = (f'<section id="{escape(chapter.id)}">\n<h1>{escape(chapter.title)}</h1>\n'
                f"{markup.about(chapter.authors, chapter.date)}{markup.chapter(chapter)}</section>\n")
        documents[files[chapter.id]] = _document(book, chapter.title, chapter.language.tag, body)
    headings = book.headings()
    if book.single:
        headings = [(1, book.chapters[0].id, book.title), *((level + 1, *rest) for level, *rest in headings)]
    documents["nav.xhtml"] = _document(book, book.language.contents, book.language.tag, (
        f'<nav epub:type="toc" role="doc-toc"><h1>{escape(book.language.contents)}</h1>\n'
        f"{markup.contents(headings)}</nav>\n"))
    pictures = sorted(path.name for path in (folder / "pictures").glob("*")) if (folder / "pictures").exists() else []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        _add(out, "mimetype", "application/epub+zip", zipfile.ZIP_STORED)     # first, and bare: a sign
        _add(out, "META-INF/container.xml", _CONTAINER)
        _add(out, "EPUB/package.opf", _package(book, documents, pictures))
        _add(out, "EPUB/style.css", Path(__file__).with_name("style.css").read_text("utf-8"))
        for name, text in documents.items():
            _add(out, f"EPUB/{name}", text)
        for name in pictures:
            _add(out, f"EPUB/pictures/{name}", (folder / "pictures" / name).read_bytes(), zipfile.ZIP_STORED)


def _ids(chapter) -> list[str]:
    notes = [f"{kind}.{chapter.id}.{number}" for kind in ("fn", "back") for number in range(len(chapter.article.notes))]
    nodes = [*chapter.article.blocks, *(block for note in chapter.article.notes for block in note)]
    return [chapter.id, *notes, *(node["id"] for node in walk(nodes) if node["kind"] == "heading")]


def _title(book: Book, markup: Markup) -> str:
    return f'<section class="title"><h1>{escape(book.title)}</h1>\n{markup.about(book.authors, book.date)}</section>\n'


def _document(book: Book, title: str, tag: str | None, body: str) -> str:
    lang = f' lang="{tag}" xml:lang="{tag}"' if tag else ""
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" '
            f'xmlns:epub="http://www.idpf.org/2007/ops"{lang}>\n<head>\n<meta charset="utf-8"/>\n'
            f"<title>{escape(title)}</title>\n"
            f'<link rel="stylesheet" type="text/css" href="style.css"/>\n</head>\n<body>\n{body}</body>\n</html>\n')


def _package(book: Book, documents: dict[str, str], pictures: list[str]) -> str:
    tag = book.language.tag or "und"
    identity = uuid.uuid5(uuid.NAMESPACE_URL, "\0".join([book.title, *documents.values()]))     # of what is in it
    authors = "".join(f"<dc:creator>{escape(author)}</dc:creator>\n" for author in book.authors)
    date = f"<dc:date>{book.date}</dc:date>\n" if re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", book.date) else ""
    items = "".join(
        f'<item id="{name.partition(".")[0]}" href="{name}" media-type="application/xhtml+xml"'
        + (' properties="nav"/>\n' if name == "nav.xhtml" else "/>\n") for name in documents)
    for name in pictures:
        number, _, kind = name.partition(".")
        media_type = _MEDIA.get(kind, f"image/{kind}")
        items += f'<item id="picture-{number}" href="pictures/{name}" media-type="{media_type}"/>\n'
    order = [name for name in documents if name != "nav.xhtml"]
    if not book.single:
        order.insert(1, "nav.xhtml")
    spine = "".join(f'<itemref idref="{name.partition(".")[0]}"/>\n' for name in order)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="{tag}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{identity}</dc:identifier>
<dc:title>{escape(book.title)}</dc:title>
<dc:language>{tag}</dc:language>
{authors}{date}<meta property="dcterms:modified">{clock.wire(clock.now())[:19]}Z</meta>
</metadata>
<manifest>
<item id="style" href="style.css" media-type="text/css"/>
{items}</manifest>
<spine>
{spine}</spine>
</package>
"""


def _add(out: zipfile.ZipFile, name: str, data: str | bytes, how: int = zipfile.ZIP_DEFLATED) -> None:
    out.writestr(zipfile.ZipInfo(name), data, how)
