"""The tree as (X)HTML: everything that came from users is escaped, and nothing but the tags below is ever written."""

from collections.abc import Callable, Iterator
from html import escape

from jobs.types.article.press.book import Book, Chapter
from jobs.types.article.press.tree import Node

_TAGS = {"strong": "strong", "emphasis": "em", "deleted": "del"}
_HIGHLIGHTED = 200_000      # characters of one block of code


class Markup:
    """Writes chapters. `address` gives the href of an id, `source` the src of a picture.

    `top` is the level of a chapter's title.
    """

    def __init__(self, book: Book, address: Callable[[str], str], source: Callable[[str], str], top: int):
        self._book, self._address, self._source = book, address, source
        self._shift = top if book.single else top - 1

    def chapter(self, chapter: Chapter) -> str:
        """The blocks of a chapter and its footnotes, without its title."""
        return self._blocks(chapter.article.blocks, chapter) + self._notes(chapter)

    def about(self, authors: list[str], date: str) -> str:
        """The line that says who wrote it, and when; or nothing."""
        words = " · ".join([*authors, *([date] if date else [])])
        return f'<p class="about">{escape(words)}</p>\n' if words else ""

    def contents(self, headings: list[tuple[int, str, str]]) -> str:
        """Nested lists of links; a level that is left out on the way down makes no list of its own."""
        made, above = "", []
        for level, id, text in headings:
            before = len(above)
            while above and above[-1] >= level:
                above.pop()
            above.append(level)
            made += "<ol>" if len(above) > before else "</li>" + "</ol></li>" * (before - len(above))
            made += f'\n<li><a href="{escape(self._address(id))}">{escape(text) or "…"}</a>'
        return made + "</li></ol>" * len(above)

    def _blocks(self, nodes: list[Node], chapter: Chapter) -> str:
        return "".join(part for node in nodes for part in self._block(node, chapter))

    def _block(self, node: Node, chapter: Chapter) -> Iterator[str]:
        match node["kind"]:
            case "paragraph":
                yield f"<p>{self._inlines(node['content'], chapter)}</p>\n"
            case "plain":
                yield self._inlines(node["content"], chapter) + "\n"
            case "heading":
                level = min(6, node["level"] + self._shift)
                yield f'<h{level} id="{escape(node["id"])}">{self._inlines(node["content"], chapter)}</h{level}>\n'
            case "code":
                yield f"<pre><code>{highlighted(node['text'], node['language'])}</code></pre>\n"
            case "quote":
                yield f"<blockquote>\n{self._blocks(node['content'], chapter)}</blockquote>\n"
            case "rule":
                yield "<hr/>\n"
            case "picture":
                caption = f"<figcaption>{escape(node['title'])}</figcaption>" if node["title"] else ""
                yield f"<figure>{self._image(node)}{caption}</figure>\n"
            case "list":
                yield from self._list(node, chapter)
            case "terms":
                yield "<dl>\n"
                for entry in node["entries"]:
                    yield f"<dt>{self._inlines(entry['term'], chapter)}</dt>\n"
                    yield f"<dd>{self._blocks(entry['content'], chapter)}</dd>\n"
                yield "</dl>\n"
            case "table":
                yield from self._table(node, chapter)

    def _list(self, node: Node, chapter: Chapter) -> Iterator[str]:
        tag = "ol" if node["ordered"] else "ul"
        yield f'<ol start="{node["start"]}">\n' if node["ordered"] and node["start"] != 1 else f"<{tag}>\n"
        for item in node["items"]:
            box = "" if item["done"] is None else f'<span class="box">{"☑" if item["done"] else "☐"}</span> '
            start = '<li class="task">' if box else "<li>"
            yield f"{start}{box}{self._blocks(item['content'], chapter)}</li>\n"
        yield f"</{tag}>\n"

    def _table(self, node: Node, chapter: Chapter) -> Iterator[str]:
        classes = [f' class="{side}"' if side in ("right", "center") else "" for side in node["align"]]

        def row(cells: list[list[Node]], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}{name}>{self._inlines(cell, chapter)}</{tag}>"
                                    for name, cell in zip(classes, cells, strict=True)) + "</tr>\n"

        yield f'<div class="table"><table>\n<thead>{row(node["head"], "th")}</thead>\n'
        if node["rows"]:
            yield "<tbody>\n" + "".join(row(cells, "td") for cells in node["rows"]) + "</tbody>\n"
        yield "</table></div>\n"

    def _inlines(self, nodes: list[Node], chapter: Chapter) -> str:
        return "".join(self._inline(node, chapter) for node in nodes)

    def _inline(self, node: Node, chapter: Chapter) -> str:
        match node["kind"]:
            case "text":
                return escape(node["text"], quote=False)
            case "code":
                return f"<code>{escape(node['text'], quote=False)}</code>"
            case "break":
                return "<br/>\n"
            case "image":
                return self._image(node)
            case "note":
                number, back = node["number"] + 1, f' id="back.{chapter.id}.{node["number"]}"' if node["first"] else ""
                target = self._address(f"fn.{chapter.id}.{node['number']}")
                return f'<sup class="note"{back}><a href="{escape(target)}" role="doc-noteref">{number}</a></sup>'
        inner = self._inlines(node["content"], chapter)
        if node["kind"] == "link":
            if "to" in node:
                return f'<a href="{escape(self._address(node["to"]))}">{inner}</a>'
            return f'<a href="{escape(node["href"])}" rel="noopener noreferrer">{inner}</a>'
        tag = _TAGS.get(node["kind"])
        return f"<{tag}>{inner}</{tag}>" if tag else inner

    def _image(self, node: Node) -> str:
        return (f'<img src="{escape(self._source(node["name"]))}" alt="{escape(node["alt"])}" '
                f'width="{node["width"]}" height="{node["height"]}"/>')

    def _notes(self, chapter: Chapter) -> str:
        if not chapter.article.notes:
            return ""
        made = ""
        for number, note in enumerate(chapter.article.notes):
            back = self._address(f"back.{chapter.id}.{number}")
            made += (f'<li id="{escape(f"fn.{chapter.id}.{number}")}">{self._blocks(note, chapter)}'
                     f'<a href="{escape(back)}" role="doc-backlink">↩</a></li>\n')
        title = escape(chapter.language.notes)
        return f'<section class="notes" role="doc-endnotes"><h2>{title}</h2>\n<ol>\n{made}</ol></section>\n'


def highlighted(text: str, language: str) -> str:
    """Code as HTML, coloured where the language is known."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        if not language or len(text) > _HIGHLIGHTED:
            return escape(text, quote=False)
        return highlight(text, get_lexer_by_name(language, stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True))
    except ClassNotFound:
        return escape(text, quote=False)
