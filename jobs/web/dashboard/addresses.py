"""Where a form may lead back to."""

from urllib.parse import urlsplit

from flask import request, url_for


def own_page(wanted: str) -> str:
    """`wanted` if it is a path of our own pages, else the overview: a link can never lead a reader elsewhere."""
    home = url_for("ui.overview")
    parts = urlsplit(wanted)
    if parts.scheme or parts.netloc or "\\" in wanted or any(character < " " for character in wanted):
        return home
    own = tuple(request.script_root + place for place in ("/ui/", "/problems/"))
    return wanted if wanted.startswith(own) or wanted == home else home
