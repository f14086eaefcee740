"""From Markdown to a tree of plain data, which is all that the three formats are made of.

Raw HTML stays text. A block is a dict with a `kind`: heading (level, id, content), paragraph, plain (a paragraph of a
list without gaps), quote, code (text, language), rule, list (ordered, start, items), terms, table (align, head, rows),
picture. So is an inline: text, code, emphasis, strong, deleted, link (href, or the id `to` of a heading), image, break,
note (number, first). `content` holds more of them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from jobs.types.article.press import inlines
from jobs.types.article.press.pictures import Picture, Unusable

MAX_NESTING = 24        # levels of Markdown, as its parser counts them; what is nested deeper is left out
Node = dict[str, Any]


@dataclass
class Article:
    """One article as a tree. `notes` are its footnotes, each a list of blocks; `anchors` ids of headings by slug."""

    blocks: list[Node]
    notes: list[list[Node]] = field(default_factory=list)
    anchors: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def parse(text: str, take: Callable[[str], Picture], ids: set[str]) -> Article:
    """Read Markdown. `take` gives a picture by its address or raises Unusable; `ids` are those in use, and grows."""
    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    tokens = markdown.use(footnote_plugin).use(deflist_plugin).parse(text)
    for token in tokens:
        token.children = token.children and inlines.shallow(token.children)
    return _Builder(take, ids).article(SyntaxTreeNode(tokens))


class _Builder:
    def __init__(self, take: Callable[[str], Picture], ids: set[str]):
        self._take, self._ids = take, ids
        self._made = Article([])
        self._seen_notes: set[int] = set()
        self._inlines = inlines.Builder(self._picture, self._note)

    def article(self, root: SyntaxTreeNode) -> Article:
        feet = [node for node in root.children if node.type == "footnote_block"]
        self._made.blocks = self._blocks([node for node in root.children if node.type != "footnote_block"])
        self._inlines.note = lambda number: None       # a note cannot have notes, least of all itself
        self._made.notes = [self._foot(node) for foot in feet for node in foot.children]
        return self._made

    def _blocks(self, nodes: list[SyntaxTreeNode]) -> list[Node]:
        return [made for node in nodes for made in self._block(node)]

    def _block(self, node: SyntaxTreeNode) -> Iterator[Node]:
        match node.type:
            case "paragraph":
                yield from self._paragraph(self._inline(node), "plain" if node.hidden else "paragraph")
            case "heading":
                content = self._inline(node)
                id = self._anchor(inlines.plain(content))
                yield {"kind": "heading", "level": int(node.tag[1]), "id": id, "content": content}
            case "fence" | "code_block":
                language = re.match(r"[\w+#.-]*", node.info.strip().strip("{.}"))[0] if node.type == "fence" else ""
                text = node.content.expandtabs(4).rstrip("\n")
                yield {"kind": "code", "language": language[:40].lower(), "text": text}
            case "blockquote":
                yield {"kind": "quote", "content": self._blocks(node.children)}
            case "bullet_list" | "ordered_list":
                yield self._list(node)
            case "table":
                yield self._table(node)
            case "dl":
                yield self._terms(node)
            case "hr":
                yield {"kind": "rule"}

    def _inline(self, node: SyntaxTreeNode) -> list[Node]:
        lines = [child for child in node.children if child.type == "inline"]
        return [made for line in lines for made in self._inlines.build(line.children)]

    def _paragraph(self, content: list[Node], kind: str) -> Iterator[Node]:
        if len(content) == 1 and content[0]["kind"] == "image":
            yield content[0] | {"kind": "picture"}
        elif content and not re.fullmatch(r"<!--.*-->", inlines.plain(content).strip(), re.DOTALL):
            yield {"kind": kind, "content": content}

    def _list(self, node: SyntaxTreeNode) -> Node:
        tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        return {"kind": "list", "ordered": node.type == "ordered_list", "start": int(node.attrs.get("start", 1)),
                "tight": tight, "items": [self._item(item) for item in node.children]}

    def _item(self, node: SyntaxTreeNode) -> Node:
        """An item; one that begins with [ ] or [x] is a task."""
        blocks = self._blocks(node.children)
        done = None
        if blocks and blocks[0]["kind"] in ("paragraph", "plain") and blocks[0]["content"][0]["kind"] == "text":
            first = blocks[0]["content"][0]
            if match := re.match(r"\[([ xX])\]\s+", first["text"]):
                done = match[1] != " "
                first["text"] = first["text"][match.end():]
        return {"done": done, "content": blocks}

    def _terms(self, node: SyntaxTreeNode) -> Node:
        entries: list[Node] = []
        for child in node.children:
            if child.type == "dt":
                entries.append({"term": self._inline(child), "content": []})
            elif entries:
                entries[-1]["content"] += self._blocks(child.children)
        return {"kind": "terms", "entries": entries}

    def _table(self, node: SyntaxTreeNode) -> Node:
        rows = [row for part in node.children for row in part.children]
        styles = [str(cell.attrs.get("style", "")) for cell in rows[0].children]
        align = [style.removeprefix("text-align:") or "left" for style in styles]
        cells = [[self._inline(cell) for cell in row.children] for row in rows]
        return {"kind": "table", "align": align, "head": cells[0], "rows": cells[1:]}

    def _picture(self, source: str) -> Picture | None:
        try:
            return self._take(source)
        except Unusable as reason:
            self._made.warnings.append(f"The picture {source[:200]} is left out: {reason}.")
            return None

    def _note(self, number: int) -> Node | None:
        first = number not in self._seen_notes
        self._seen_notes.add(number)
        return {"kind": "note", "number": number, "first": first}

    def _foot(self, node: SyntaxTreeNode) -> list[Node]:
        blocks = self._blocks(node.children)
        if blocks and blocks[0]["kind"] == "paragraph":
            blocks[0]["kind"] = "plain"     # it follows its number
        return blocks

    def _anchor(self, text: str) -> str:
        """An id that nothing else in the export has; the article's own links know it by its slug."""
        made = new_id(text, self._ids)
        slug = again = slug_of(text)
        number = 1
        while again in self._made.anchors:
            again, number = f"{slug}-{number}", number + 1
        self._made.anchors[again] = made
        return made


def new_id(text: str, ids: set[str]) -> str:
    """An id made of a heading's words that is not among `ids`, where it then is. It is a name as XML has it."""
    slug = slug_of(text)
    base = slug if re.match(r"[^\W\d]", slug) else f"s-{slug}".rstrip("-")
    made, number = base, 1
    while made in ids:
        made, number = f"{base}-{number}", number + 1
    ids.add(made)
    return made


def slug_of(text: str) -> str:
    """The name of a heading in addresses, as code hosts make it: lower case, hyphens for spaces, no punctuation."""
    joined = re.sub(r"\s", "-", text.strip().lower())
    return "".join(char for char in joined if char == "-" or f"a{char}".isidentifier())[:100]
