"""What job types and validators say, in the reader's language.

Programs get these words as their author wrote them; only the pages translate. A message into which something was filled
(`Must be one of: a, b.`) is recognised by its pattern (`Must be one of: {choices}.`). A type's own words come first,
then the catalog of the pages; what neither has stays as it was written.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

from flask_babel import get_translations

from markupsafe import Markup, escape

from jobs.web.dashboard import preferences
from jobs.work.job_type import JobType

_PLACE = re.compile(r"\{(\w+)\}")
_TELLING = 5     # letters that a pattern must have beside its places; fewer would fit anything
_LONGEST = 1000  # characters; a longer text is no message of ours with something filled in


class Phrases:
    """Texts and patterns with their translations."""

    def __init__(self, words: Mapping[str, str]):
        self._words = words

    def find(self, text: str) -> str | None:
        """The translation; what was filled in is translated, too, where it is a text of its own."""
        if found := self._words.get(text):
            return found
        if len(text) > _LONGEST:
            return None
        for pattern, translation in self._patterns:
            if match := pattern.fullmatch(text):
                filled = {name[1:]: self._words.get(value) or value for name, value in match.groupdict().items()}
                return _PLACE.sub(lambda place: filled.get(place[1], place[0]), translation)
        return None

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern, str]]:
        """Those with the most words of their own first."""
        found = [(_PLACE.sub("", text), text, translation) for text, translation in self._words.items() if _PLACE.search(text)]
        return [(_pattern(text), translation) for own, text, translation in sorted(found, key=lambda one: -len(one[0]))
                if sum(map(str.isalpha, own)) >= _TELLING]


def told(text: str, declared: JobType | None = None) -> str:
    """The text in the reader's language, by the words of this type and by ours."""
    for phrases in (*_own(declared), _ours(preferences.language())):
        if found := phrases.find(text):
            return found
    return text


def prose(text: str) -> Markup:
    """The text as HTML: what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def _own(declared: JobType | None) -> Iterator[Phrases]:
    """The words that the type brings for the reader's language; `zh` serves zh-Hans and zh-Hant."""
    tag = preferences.language_tag()
    for name in dict.fromkeys((tag, tag.partition("-")[0])):
        if declared and name in declared.words:
            yield Phrases(declared.words[name])


@lru_cache(maxsize=len(preferences.LANGUAGES))
def _ours(language: str) -> Phrases:
    """The catalog of the pages; the translation that is in force must be that of `language`."""
    catalog = getattr(get_translations(), "_catalog", {})
    return Phrases({text: translation for text, translation in catalog.items() if isinstance(text, str) and text})


def _pattern(text: str) -> re.Pattern:
    known: set[str] = set()

    def place(match: re.Match) -> str:
        name = f"p{match[1]}"      # a group's name may not begin with a digit
        again = name in known
        known.add(name)
        return f"(?P={name})" if again else f"(?P<{name}>.+?)"

    return re.compile(_PLACE.sub(place, re.escape(text).replace(r"\{", "{").replace(r"\}", "}")), re.DOTALL)
