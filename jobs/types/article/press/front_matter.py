"""The lines between --- at the head of an article: title, author, date, lang. A plain subset of YAML."""

import re

_BLOCK = re.compile(r"\A---[ \t]*\n(.{0,65536}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_MOST = 300     # characters of one value


def split(text: str) -> tuple[dict[str, list[str]], str]:
    """The values by lower-case name, each a list (of one, for a plain value), and the text without the block."""
    match = _BLOCK.match(text)
    values = _values(match[1]) if match else None
    return ({}, text) if values is None else (values, text[match.end():])


def _values(block: str) -> dict[str, list[str]] | None:
    """None when the lines are no front matter, but an article that begins with a rule."""
    found: dict[str, list[str]] = {}
    name = None
    for line in block.split("\n"):
        if match := _LINE.fullmatch(line):
            name = match[1].lower()
            found[name] = _listed(match[2] or "")
        elif match := re.fullmatch(r"[ \t]*-[ \t]+(.*)", line):
            if name is None:
                return None
            found[name] += _listed(match[1])
        elif line.strip() and not line.startswith((" ", "\t", "#")):
            return None
    return found


def _listed(value: str) -> list[str]:
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        return [text for part in value[1:-1].split(",") if (text := _bare(part))]
    return [text] if (text := _bare(value)) else []


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1][:_MOST]
    return re.sub(r"(?:^|\s)#.*", "", value).strip()[:_MOST]
