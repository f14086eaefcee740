"""Gathers every text of the pages and brings the catalogs up to date: `python translations/update.py`.

What is new comes without a translation, what is gone goes; then the .mo files are compiled, which are kept in the
repository, so that setting up needs no tool. A test holds that nothing is left untranslated.
"""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
_UNDATED = datetime(2026, 1, 1, tzinfo=UTC)
LANGUAGES = ("zh_Hans", "zh_Hant")
_KEYWORDS = {"_": None, "gettext": None, "lazy_gettext": None, "ngettext": (1, 2)}
_JINJA = {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}
_PLACES = ((ROOT / "templates", [("**.html", "jinja2")], {"**.html": _JINJA}),
           (ROOT / "jobs" / "web", [("**.py", "python")], {}))


def template() -> Catalog:
    """Every text that can be translated: of templates and modules, of problems, settings and the built-in job types."""
    sys.path.insert(0, str(ROOT))
    from jobs import settings
    from jobs.errors import KINDS
    from jobs.types import load_registry
    from jobs.web.dashboard.told import Phrases
    from translations import messages

    found = Catalog(project="Accepted", fuzzy=False)
    for row in settings.TABLE:
        found.add(row.help, locations=[("jobs/settings.py", 0)])
    for folder, methods, options in _PLACES:
        for name, _, message, _, _ in extract_from_dir(folder, methods, options, keywords=_KEYWORDS):
            found.add(message, locations=[(f"{folder.relative_to(ROOT)}/{name}", 0)])
    for kind in KINDS.values():
        found.add(kind.title, locations=[("jobs/errors.py", 0)])
        found.add(kind.help, locations=[("jobs/errors.py", 0)])
    told = {*messages.raised(), *messages.of_marshmallow()}
    patterns = Phrases({text: text for text in told})
    told |= {text for text in messages.of_types(load_registry(settings.load({}))) if text and not patterns.find(text)}
    for text in sorted(told):
        found.add(text, locations=[("jobs/types", 0)])
    return found


def path(language: str) -> Path:
    """Where the catalog of a language lies."""
    return FOLDER / language / "LC_MESSAGES" / "messages.po"


def load(language: str) -> Catalog:
    """The catalog as it lies in the repository."""
    with path(language).open("rb") as file:
        return read_po(file, locale=language)


def compiled(catalog: Catalog) -> bytes:
    """The .mo file of a catalog."""
    target = io.BytesIO()
    write_mo(target, catalog)
    return target.getvalue()


def main() -> None:
    fresh = template()
    for language in LANGUAGES:
        known = path(language).exists()
        catalog = load(language) if known else Catalog(locale=language, project="Accepted", fuzzy=False)
        catalog.update(fresh, no_fuzzy_matching=True)
        catalog.obsolete.clear()
        catalog.header_comment = f"# Accepted in {catalog.locale.display_name}."
        catalog.creation_date = catalog.revision_date = _UNDATED  # a date would only make conflicts
        catalog.last_translator = catalog.language_team = catalog.msgid_bugs_address = ""
        path(language).parent.mkdir(parents=True, exist_ok=True)
        with path(language).open("wb") as file:
            write_po(file, catalog, width=120, no_location=True, omit_header=False, sort_output=True)
        path(language).with_suffix(".mo").write_bytes(compiled(catalog))
        missing = [message.id for message in catalog if message.id and not message.string]
        print(f"{language}: {len(catalog)} texts, {len(missing)} to translate")


if __name__ == "__main__":
    main()
