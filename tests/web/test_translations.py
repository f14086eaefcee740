"""Every text of the pages exists in every language."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
from marshmallow import Schema, fields, validate

from jobs.work.job_type import job_type

_spec = importlib.util.spec_from_file_location("update", Path(__file__).parents[2] / "translations" / "update.py")
update = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(update)
HINT = "run: python translations/update.py, and translate what it reports"


@pytest.fixture(scope="module")
def texts():
    return {message.id for message in update.template() if message.id}


@pytest.mark.parametrize("language", update.LANGUAGES)
def test_nothing_is_left_untranslated(language, texts):
    catalog = {message.id: message.string for message in update.load(language) if message.id}
    assert texts - catalog.keys() == set(), HINT
    assert catalog.keys() - texts == set(), HINT
    assert [id for id, string in catalog.items() if not (all(string) if isinstance(string, tuple) else string)] == []


@pytest.mark.parametrize("language", update.LANGUAGES)
def test_translations_keep_what_is_filled_in(language):
    for message in update.load(language):
        wanted = set(re.findall(r"%\(\w+\)s|\{\w+\}", message.id if isinstance(message.id, str) else message.id[-1]))
        for string in message.string if isinstance(message.string, tuple) else (message.string,):
            if message.id:
                assert set(re.findall(r"%\(\w+\)s|\{\w+\}", string)) == wanted, message.id


@pytest.mark.parametrize("language", update.LANGUAGES)
def test_what_is_compiled_is_what_is_written(language):
    assert update.path(language).with_suffix(".mo").read_bytes() == update.compiled(update.load(language)), HINT


# What a `ValidationError` of a built-in type may hold that is no text of its own: messages that were found elsewhere.
PASSED_ON = {"faults", "str(reason)", "{'params': fault.messages}", "formats.FORMATS[value].advice", "{'topic': [str(reason)]}"}


def test_every_refusal_of_a_built_in_type_is_found():
    from translations import messages

    silent = set()
    for path in (messages.JOBS / "types").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ValidationError" and not list(messages._texts(node.args[0])):
                silent.add(ast.unparse(node.args[0]))
    assert silent <= PASSED_ON, "write its words where it is raised"


def test_every_word_of_a_declaration_is_found():
    from translations import messages

    @job_type("a.b", title="One", payload={
        "x": fields.Str(validate=validate.OneOf(["a"], labels=["Two"], error="Three"), metadata={"description": "Four"}),
        "y": fields.List(fields.Nested(Schema.from_dict({"z": fields.Int(error_messages={"invalid": "Five"})}))),
        "w": fields.Dict(values=fields.Str(metadata={"title": "Six"}), validate=validate.Length(max=3))})
    def declared(job, x, y, w):
        """Seven"""

    found = set(messages.of_types([declared]))
    assert {"One", "Two", "Three", "Four", "Five", "Six", "Seven", "Longer than maximum length {max}."} <= found


def test_a_text_with_places_becomes_a_pattern():
    from translations import messages

    tree = ast.parse('f"{name} has {len(self.files)} of {most!r}: " + ("x" if y else f"no {name}!")', mode="eval")
    assert list(messages._texts(tree.body)) == ["{name} has {files} of {most}: x", "{name} has {files} of {most}: no {name}!"]
