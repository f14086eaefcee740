"""Every text of the pages exists in every language."""

import importlib.util
import re
from pathlib import Path

import pytest

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
