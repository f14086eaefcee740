"""Language and colours: what the browser prefers, unless the reader chose otherwise. Kept in a cookie for a year."""

from flask import Response, redirect, request

from jobs.web.dashboard.addresses import own_page
from jobs.web.dashboard.protection import check_origin

LANGUAGES = {"en": "English", "zh_Hans": "简体中文", "zh_Hant": "繁體中文"}
_TAGS = {"en": "en", "zh_Hans": "zh-Hans", "zh_Hant": "zh-Hant"}
THEMES = ("auto", "light", "dark")
_YEAR = 365 * 86400


def language() -> str:
    """The language of this answer, as a name of our catalogs."""
    chosen = request.cookies.get("language")
    if chosen in LANGUAGES:
        return chosen
    for wanted, _ in request.accept_languages:
        found = _catalog(wanted.lower())
        if found:
            return found
    return "en"


def language_tag() -> str:
    """The same as HTML names it (BCP 47)."""
    return _TAGS[language()]


def theme() -> str:
    """auto, light or dark."""
    chosen = request.cookies.get("theme")
    return chosen if chosen in THEMES else "auto"


def choose() -> Response:
    """Keep what the form says and go back to the page it stood on."""
    check_origin()      # no token: public pages have the form, too, and it changes nothing but two cookies
    response = redirect(own_page(request.form.get("back", "")), 303)
    for name, known in (("language", LANGUAGES), ("theme", THEMES)):
        if request.form.get(name) in known:
            response.set_cookie(name, request.form[name], max_age=_YEAR, httponly=True, samesite="Lax",
                                secure=request.is_secure, path=request.script_root + "/")
    return response


def _catalog(tag: str) -> str | None:
    if tag.split("-")[0] == "en":
        return "en"
    if tag.split("-")[0] == "zh":
        return "zh_Hant" if any(part in ("hant", "tw", "hk", "mo") for part in tag.split("-")[1:]) else "zh_Hans"
    return None
