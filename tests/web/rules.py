"""The numbers of docs/http.md, and the marks by which tests say which of them they assert."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "http.md"


def rule(*numbers: str):
    """Mark a test, or a row of its table, with the rules that it asserts."""
    return pytest.mark.rule(*numbers)


def row(numbers: str, *values, id: str | None = None):
    """A row of a table that asserts these rules (separated by spaces)."""
    return pytest.param(*values, marks=rule(*numbers.split()), id=id)


def documented() -> set[str]:
    """Every number in the page."""
    return set(re.findall(r"^- \*\*(\d+\.\d+)\*\* ", PAGE.read_text(), re.MULTILINE))


def asserted() -> set[str]:
    """Every number that a test names."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = re.findall(r'\brow\("([\d. ]+)"', text) + re.findall(r'\brule\(((?:"[\d.]+"[, ]*)+)\)', text)
    return {number for each in named for number in re.findall(r"\d+\.\d+", each)}
