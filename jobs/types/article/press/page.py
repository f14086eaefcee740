"""The HTML: one file that needs nothing beside it, with its pictures and its style inside."""

import base64
from html import escape
from pathlib import Path

from jobs.types.article.press.book import Book, Chapter
from jobs.types.article.press.markup import Markup

_MEDIA = {"svg": "image/svg+xml", "jpg": "image/jpeg"}
# No script, nothing fetched: even if something of a user's slipped through, it could not act.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write(book: Book, folder: Path, target: Path) -> None:
    """Write the page; the book's pictures lie in `folder`/pictures."""

    def inside(name: str) -> str:
        kind = name.rpartition(".")[2]
        data = base64.b64encode((folder / "pictures" / name).read_bytes()).decode()
        return f"data:{_MEDIA.get(kind, f'image/{kind}')};base64,{data}"

    markup = Markup(book, lambda id: f"#{id}", inside, top=1 if book.single else 2)
    with target.open("w", encoding="utf-8") as out:
        out.write(_head(book))
        out.write(f'<header>\n<h1>{escape(book.title)}</h1>\n{markup.about(book.authors, book.date)}</header>\n')
        if book.has_contents:
            headings = [heading for heading in book.headings() if heading[0] <= 3]
            out.write(f'<nav><h2>{escape(book.language.contents)}</h2>\n{markup.contents(headings)}</nav>\n')
        out.write("<main>\n")
        for chapter in book.chapters:
            out.write(_article(book, chapter, markup))
        out.write("</main>\n</body>\n</html>\n")


def _article(book: Book, chapter: Chapter, markup: Markup) -> str:
    lang = f' lang="{chapter.language.tag}"' if chapter.language.tag else ""
    title = "" if book.single else f"<h2>{escape(chapter.title)}</h2>\n{markup.about(chapter.authors, chapter.date)}"
    return f'<article id="{escape(chapter.id)}"{lang}>\n{title}{markup.chapter(chapter)}</article>\n'


def _head(book: Book) -> str:
    lang = f' lang="{book.language.tag}"' if book.language.tag else ""
    authors = "".join(f'<meta name="author" content="{escape(author)}">\n' for author in book.authors)
    style = Path(__file__).with_name("style.css").read_text("utf-8")
    return (f'<!DOCTYPE html>\n<html{lang}>\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escape(book.title)}</title>\n{authors}<style>\n{style}</style>\n</head>\n<body>\n")
