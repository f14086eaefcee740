"""What an artifact is called, whatever a client or a handler said."""

import re
import unicodedata

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")  # with bidi overrides
_LONGEST = 200  # bytes; a file name of most systems may have 255


def clean(name: str | None, fallback: str = "file") -> str:
    """The last part of a path, without what cannot be printed or would hide its ending; `fallback` when nothing is left."""
    last = re.split(r"[/\\]", name or "")[-1]
    last = unicodedata.normalize("NFC", _UNPRINTABLE.sub("", last)).strip()
    if last.strip(". ") == "":
        return fallback
    stem, dot, ending = last.rpartition(".")
    if len(last.encode()) <= _LONGEST:
        return last
    if not stem or len(ending.encode()) > 20:
        stem, dot, ending = last, "", ""
    room = _LONGEST - len((dot + ending).encode())
    return stem.encode()[:room].decode(errors="ignore") + dot + ending
