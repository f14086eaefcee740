"""Any JSON becomes a bounded tree of visible text."""

import json

import pytest

from jobs.web.dashboard import tree


def test_shows_numbers_as_they_were_written():
    node = tree.grow('{"big": 123456789012345678901234567890, "small": 1e400, "no": null}')
    assert [(child.name, child.kind, child.text) for child in node.children] == [
        ("big", "number", "123456789012345678901234567890"), ("small", "number", "1e400"), ("no", "word", "null")]


def test_is_bounded_in_every_direction():
    wide = tree.grow(json.dumps(list(range(100_000))))
    assert len(wide.children) < tree.MAX_NODES and wide.left_out == 100_000 - len(wide.children)
    deep = node = tree.grow("[" * 90 + "]" * 90)
    depth = 0
    while node.children:
        node, depth = node.children[0], depth + 1
    assert depth == tree.MAX_DEPTH and deep.count == 1
    long = tree.grow(json.dumps("x" * 100_000))
    assert len(long.text) == tree.MAX_TEXT and long.left_out == 100_000 - tree.MAX_TEXT


@pytest.mark.parametrize("document", [None, "", "{", "[" * 100_000])
def test_what_cannot_be_shown_has_no_tree(document):
    assert tree.grow(document) is None


def test_makes_the_invisible_visible():
    assert tree.visible("a\x00b\x1b[0m\u202egnp.exe\n\tok\ud800") == "a␀b␛[0m⟨U+202E⟩gnp.exe\n\tok⟨U+D800⟩"
    assert tree.visible("中文 عربى 👩‍💻 é") == "中文 عربى 👩‍💻 é"
