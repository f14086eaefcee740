"""Running text: from the tokens of a line to nodes of the tree."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from jobs.types.article.press.languages import CJK, SYLLABLE
from jobs.types.article.press.pictures import Picture

Node = dict[str, Any]
_SPANS = {"em": "emphasis", "strong": "strong", "s": "deleted"}
_SHARED_MARKS = tuple("—…“”‘’")
MAX_SPANS = 8
_SCHEMES = ("http", "https", "mailto")
_BARE = re.compile(r"""\bhttps?://[^\s<>"'`|\\^{}\u2018-\u201d\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]*[\w/#=&%~+-]""",
                   re.IGNORECASE | re.ASCII)


class Builder:
    """Builds inlines. `picture` gives a picture by its address, or None; `note` the mark of a footnote, or None."""

    def __init__(self, picture: Callable[[str], Picture | None], note: Callable[[int], Node | None]):
        self.picture, self.note = picture, note

    def build(self, nodes: list[SyntaxTreeNode]) -> list[Node]:
        """The inlines of a line, neighbouring texts joined, addresses in them made links."""
        return _linked(_joined(self._flat(nodes, frozenset())))

    def _flat(self, nodes: list[SyntaxTreeNode], around: frozenset[str]) -> Iterator[Node]:
        for place, node in enumerate(nodes):
            match node.type:
                case "text" | "text_special":
                    yield from _texts(node.content)
                case "softbreak":
                    yield _text(_line_end(nodes[:place], nodes[place + 1:]))
                case "hardbreak":
                    yield {"kind": "break"}
                case "code_inline":
                    yield {"kind": "code", "text": node.content}
                case "em" | "strong" | "s" | "link":
                    yield from self._span(node, around)
                case "image":
                    yield from self._image(node)
                case "footnote_ref":
                    if mark := self.note(node.meta["id"]):
                        yield mark

    def _span(self, node: SyntaxTreeNode, around: frozenset[str]) -> Iterator[Node]:
        inner = self._flat(node.children, around | {node.type})
        if node.type in around:        # bold in bold is bold
            yield from inner
            return
        content = _joined(inner)
        if node.type != "link":
            yield {"kind": _SPANS[node.type], "content": content}
        elif target := _target(str(node.attrs.get("href", ""))):
            yield {"kind": "link", "content": content} | target
        else:
            yield from content

    def _image(self, node: SyntaxTreeNode) -> Iterator[Node]:
        source, alt = str(node.attrs.get("src", "")), plain(_joined(self._flat(node.children, frozenset())))
        picture = self.picture(source)
        if picture:
            yield {"kind": "image", "name": picture.name, "source": source, "width": picture.width,
                   "height": picture.height, "alt": alt, "title": str(node.attrs.get("title", ""))}
        elif (target := _target(source)) and "href" in target:
            yield {"kind": "link", "content": [_text(alt or source)]} | target
        elif alt:
            yield {"kind": "emphasis", "content": [_text(f"[{alt}]")]}


def shallow(tokens: list[Token]) -> list[Token]:
    """The tokens of a line without spans that lie deeper than MAX_SPANS; the words in them stay."""
    found: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.nesting > 0
        if not token.nesting or depth <= MAX_SPANS:
            found.append(token)
        depth -= token.nesting < 0
        if token.children:
            token.children = shallow(token.children)
    return found


def plain(nodes: list[Node]) -> str:
    """The words alone."""
    return "".join(
        " " if node["kind"] == "break" else node.get("text") or node.get("alt") or plain(node.get("content", []))
        for node in nodes)


def _target(address: str) -> Node | None:
    """Where a link leads: an address outside, or a file beside the article and a heading in it. None: nowhere."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme.lower() in _SCHEMES:
        return {"href": address}
    if parts.scheme or parts.netloc or address.startswith("/"):
        return None
    return {"file": unquote(parts.path), "slug": unquote(parts.fragment)}


def _text(text: str) -> Node:
    return {"kind": "text", "text": text}


def _texts(content: str) -> Iterator[Node]:
    """Text; `<br>`, the one tag that authors need in tables, is a break."""
    for number, part in enumerate(re.split(r"<br\s*/?>", content, flags=re.IGNORECASE)):
        if number:
            yield {"kind": "break"}
        if part:
            yield _text(part)


def _line_end(before: list[SyntaxTreeNode], after: list[SyntaxTreeNode]) -> str:
    """What a line end within a paragraph is: a space, but nothing between Chinese or Japanese characters."""
    sides = _edge(before, -1), _edge(after, 0)
    dense = [bool(CJK.match(char)) and not SYLLABLE.match(char) for char in sides]
    joined = any(dense) and all(one or char in _SHARED_MARKS for one, char in zip(dense, sides, strict=True))
    return "" if joined else " "


def _edge(nodes: list[SyntaxTreeNode], end: int) -> str:
    """The first character of these nodes, or with -1 the last; a span's is that of its words."""
    for node in nodes[::end or 1]:
        if found := _edge(node.children, end) if node.children else node.content[end:][:1]:
            return found
    return ""


def _joined(nodes: Iterator[Node]) -> list[Node]:
    found: list[Node] = []
    for node in nodes:
        if node["kind"] == "text" and found and found[-1]["kind"] == "text":
            found[-1] = _text(found[-1]["text"] + node["text"])
        elif node["kind"] != "text" or node["text"]:
            found.append(node)
    return found


def _linked(nodes: list[Node]) -> list[Node]:
    """Addresses that stand bare in a text become links, as readers expect."""
    found: list[Node] = []
    for node in nodes:
        if node["kind"] == "text":
            found += _with_links(node["text"])
        elif node["kind"] != "link" and "content" in node:
            found.append(node | {"content": _linked(node["content"])})
        else:
            found.append(node)
    return found


def _with_links(text: str) -> Iterator[Node]:
    at = 0
    for match in _BARE.finditer(text):
        if match.start() > at:
            yield _text(text[at:match.start()])
        yield {"kind": "link", "href": match[0], "content": [_text(match[0])]}
        at = match.end()
    if at < len(text):
        yield _text(text[at:])
