"""From files to one book: read, parse, put in order, and let the links between articles lead somewhere."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jobs.types.article.press import decoding, front_matter, inlines, tree
from jobs.types.article.press.languages import Language, guess, language
from jobs.types.article.press.pictures import Pictures
from jobs.types.article.press.tree import Article, Node

MAX_TEXT = 10 * 1024**2     # bytes of all articles together
_FEW = 3                    # headings for which nobody needs a table of contents


@dataclass
class Chapter:
    """One article in the book. `id` is the anchor of its title."""

    file: str
    id: str
    title: str
    authors: list[str]
    date: str
    language: Language
    article: Article


@dataclass
class Book:
    """What is set. A book of a single article has its title above all, not as a heading."""

    title: str
    chapters: list[Chapter]
    warnings: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def single(self) -> bool:
        """Whether the book is one article."""
        return len(self.chapters) == 1

    @property
    def language(self) -> Language:
        """That of the first article."""
        return self.chapters[0].language

    @property
    def authors(self) -> list[str]:
        """Everybody who wrote one of the articles, in their order."""
        return list(dict.fromkeys(author for chapter in self.chapters for author in chapter.authors))

    @property
    def date(self) -> str:
        """The latest date of an article, or nothing."""
        return max((chapter.date for chapter in self.chapters), default="")

    def headings(self) -> list[tuple[int, str, str]]:
        """Level from 1, id and text of each heading, chapters among them where there are several."""
        found = []
        for chapter in self.chapters:
            if not self.single:
                found.append((1, chapter.id, chapter.title))
            found += [(node["level"], node["id"], inlines.plain(node["content"]))
                      for node in walk(chapter.article.blocks) if node["kind"] == "heading"]
        return found

    @property
    def has_contents(self) -> bool:
        """Whether a table of contents is worth its space."""
        return len(self.headings()) > _FEW

    def data(self) -> dict[str, Any]:
        """The book as plain data."""
        return {"title": self.title, "authors": self.authors, "date": self.date, "single": self.single,
                "contents": self.has_contents, "language": asdict(self.language), "chapters": [
                    {"id": one.id, "title": one.title, "authors": one.authors, "date": one.date,
                     "language": asdict(one.language), "blocks": one.article.blocks, "notes": one.article.notes}
                    for one in self.chapters]}


def read(articles: list[dict[str, str]], pictures: Pictures, title: str | None = None,
         told: Callable[[int, str], None] = lambda done, name: None) -> Book:
    """Read each article (`name`, `path`); `title` names the whole. One that cannot be read is skipped and named."""
    book, ids, size = Book(title or "", []), set(), 0
    for done, entry in enumerate(articles):
        told(done, entry["name"])
        path = Path(entry["path"])
        size += path.stat().st_size
        if size > MAX_TEXT:
            book.skipped.append((entry["name"], f"all articles together are longer than {MAX_TEXT // 1024**2} MB"))
            continue
        try:
            chapter = _chapter(entry["name"], decoding.decode(path.read_bytes()), pictures, ids)
        except decoding.Unreadable as reason:
            book.skipped.append((entry["name"], str(reason)))
            continue
        book.chapters.append(chapter)
        where = f"{entry['name']}: " if len(articles) > 1 else ""
        book.warnings += [where + warning for warning in chapter.article.warnings]
    if book.chapters:
        _finish(book)
    return book


def walk(nodes: list[Node]) -> Iterator[Node]:
    """Every block and inline, from the first to the last."""
    for node in nodes:
        if "kind" in node:      # items of lists and entries of terms are no blocks themselves
            yield node
        for name in ("content", "term", "items", "entries"):
            yield from walk(node.get(name, []))
        for row in [node["head"], *node["rows"]] if "rows" in node else []:
            for cell in row:
                yield from walk(cell)


def _chapter(name: str, text: str, pictures: Pictures, ids: set[str]) -> Chapter:
    values, body = front_matter.split(text)
    article = tree.parse(body, pictures.take, ids)
    first = article.blocks[0] if article.blocks else None
    has_heading = first and first["kind"] == "heading" and first["level"] == 1
    heading = inlines.plain(first["content"]).strip() if has_heading else ""
    title = " ".join(values.get("title", [])) or heading or Path(name).stem
    if has_heading and heading == title:
        chapter_id = article.blocks.pop(0)["id"]
    else:
        chapter_id = tree.new_id(title, ids)
    tag = " ".join(values.get("lang") or values.get("language") or []) or guess(f"{title}\n{body}")
    return Chapter(name, chapter_id, title, values.get("author") or values.get("authors") or [],
                   " ".join(values.get("date", []))[:40], language(tag), article)


def _finish(book: Book) -> None:
    book.title = book.title or book.chapters[0].title
    by_file = {chapter.file: chapter for chapter in book.chapters}
    for chapter in book.chapters:
        nodes = [*chapter.article.blocks, *(block for note in chapter.article.notes for block in note)]
        levels = [node["level"] for node in walk(nodes) if node["kind"] == "heading"]
        shift = (1 if book.single else 2) - min(levels, default=1)
        for node in walk(nodes):
            if node["kind"] == "heading":
                node["level"] = min(6, node["level"] + shift)
            elif node["kind"] == "link" and "file" in node:
                _resolve(node, chapter, by_file)


def _resolve(node: Node, chapter: Chapter, by_file: dict[str, Chapter]) -> None:
    """A link within the book gets the id of its heading, `to`; one that leads nowhere stays words."""
    file, slug = node.pop("file"), node.pop("slug")
    target = by_file.get(file.removeprefix("./")) if file else chapter
    anchor = target and (target.article.anchors.get(slug.lower()) if slug else target.id)
    if anchor:
        node["to"] = anchor
    else:
        node["kind"] = "span"
