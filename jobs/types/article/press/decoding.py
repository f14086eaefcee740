"""From bytes to text: the encoding by its mark, by its validity, else by what reads like language."""

import codecs
import re

from jobs.types.article.press.languages import likeness

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
          (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (b"\x84\x31\x95\x33", "gb18030"))
_LEGACY = ("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949")
_SAMPLE = 40_000    # characters that are compared
# What XML cannot hold, and what turns the order of reading round so that a page shows something else than it says.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_UNSEEN = re.compile("[\u202a-\u202e\u2066-\u2069\ufeff]")


class Unreadable(Exception):
    """The bytes are text in no encoding that is known here."""


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, UTF-16, UTF-32, GB18030 (GBK, GB2312), Big5, Shift_JIS, EUC-JP or EUC-KR."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return clean(data[len(mark):].decode(encoding, "replace"))
    if b"\0" in data and (text := _wide(data)) is not None:
        return clean(text)
    if (text := _strictly(data, "utf-8")) is not None:
        return clean(text)
    readings = [text for encoding in _LEGACY if (text := _strictly(data, encoding)) is not None]
    if not readings:
        raise Unreadable("It is neither UTF-8 nor another encoding that is known here; save it as UTF-8.")
    return clean(max(readings, key=lambda text: likeness(text[:_SAMPLE])))


def clean(text: str) -> str:
    """The text with plain line ends, without controls and without what turns the direction of reading round, unseen."""
    text = re.sub("\r\n?|[\x0c\x85\u2028\u2029]", "\n", text)
    return _UNSEEN.sub("", _FORBIDDEN.sub("\ufffd", text))


def _wide(data: bytes) -> str | None:
    """UTF-16 without a mark: of the two orders the one that gives readable text, if any does."""
    readings = [text for encoding in ("utf-16-le", "utf-16-be") if (text := _strictly(data, encoding)) is not None]
    readings = [text for text in readings if not _FORBIDDEN.search(text) and _plainness(text[:_SAMPLE]) > 0.3]
    return max(readings, key=lambda text: _plainness(text[:_SAMPLE]), default=None)


def _plainness(text: str) -> float:
    """The share of characters that are to be expected."""
    plain = sum(char.isascii() for char in text)
    return (plain + likeness(text) * (len(text) - plain)) / (len(text) or 1)


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None
