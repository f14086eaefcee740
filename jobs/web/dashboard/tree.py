"""JSON as a tree that a person can read: bounded, whatever a job puts into it."""

import json
import unicodedata
from dataclasses import dataclass, field
from typing import Any

MAX_NODES = 400          # values shown of one document
MAX_DEPTH = 12
MAX_TEXT = 2_000         # characters shown of one string
LONG_TEXT = 160          # characters after which a string is folded
MAX_PARSED = 2_000_000   # characters of a document that are parsed for showing


class _Literal(str):
    """A number as it was written: neither a big integer nor an exponent is changed by being shown."""


@dataclass
class Node:
    """One value. `kind` is object, array, text, number, word (true, false, null) or cut."""

    kind: str
    text: str = ""
    name: str | None = None
    children: list["Node"] = field(default_factory=list)
    count: int = 0           # members of an object or array, characters of a text
    left_out: int = 0        # of these, not shown

    @property
    def brief(self) -> bool:
        """Whether it is a short list of short values, which needs no fold."""
        return (self.kind == "array" and not self.left_out and 0 < self.count <= 12
                and all(child.kind in ("text", "number", "word") and len(child.text) <= 40 for child in self.children))


def grow(document: str | None) -> Node | None:
    """The tree of a JSON document; None when there is none, or it is too big to be shown."""
    if document is None or len(document) > MAX_PARSED:
        return None
    try:
        value = json.loads(document, parse_int=_Literal, parse_float=_Literal)
    except (ValueError, RecursionError):
        return None
    return _node(value, None, 0, [MAX_NODES])


def _node(value: Any, name: str | None, depth: int, budget: list[int]) -> Node:
    budget[0] -= 1
    name = None if name is None else visible(name[:200])
    if isinstance(value, (dict, list)):
        return _branch(value, name, depth, budget)
    if isinstance(value, _Literal):
        return Node("number", visible(value[:MAX_TEXT]), name)
    if isinstance(value, str):
        return Node("text", visible(value[:MAX_TEXT]), name, count=len(value), left_out=max(0, len(value) - MAX_TEXT))
    return Node("word", json.dumps(value), name)


def _branch(value: dict | list, name: str | None, depth: int, budget: list[int]) -> Node:
    kind = "object" if isinstance(value, dict) else "array"
    node = Node(kind, name=name, count=len(value))
    pairs = value.items() if isinstance(value, dict) else ((str(place), inner) for place, inner in enumerate(value))
    if depth < MAX_DEPTH:
        for key, inner in pairs:
            if budget[0] <= 0:
                break
            node.children.append(_node(inner, key, depth + 1, budget))
    node.left_out = len(value) - len(node.children)
    return node


def visible(text: Any) -> str:
    """The text with what would be invisible, or would turn the reading direction around, made visible."""
    return "".join(_visible(character) if character < " " or character > "~" else character for character in str(text))


def _visible(character: str) -> str:
    if character in "\n\t":
        return character
    if character < " ":
        return chr(0x2400 + ord(character))                     # the control pictures: ␀ for NUL
    if character == "\x7f":
        return "␡"
    kind = unicodedata.category(character)
    if kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and character not in "\u200c\u200d\u00ad\ufeff"):
        return f"⟨U+{ord(character):04X}⟩"                      # bidi overrides and isolates among them
    return character
