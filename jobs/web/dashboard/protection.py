"""Forms that only our own pages can send."""

import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

from flask import request, session

from jobs.errors import Problem
from jobs.web.site import base_url


def token() -> str:
    """The secret of this session that every form carries. Pages outside of the dashboard are public: they begin no session."""
    if "csrf" not in session and request.blueprint == "ui":
        new_token()
    return session.get("csrf", "")


def new_token() -> None:
    """Give the session a secret."""
    session["csrf"] = secrets.token_urlsafe(18)


def check_form(form: Mapping[str, str] | None = None) -> None:
    """Before a form is acted on: it came from one of our pages, shown in this very session. Problem 403."""
    check_origin()
    sent = (request.form if form is None else form).get("csrf", "")
    known = session.get("csrf", "")
    if not known or not secrets.compare_digest(sent.encode(), known.encode()):
        raise Problem("csrf")


def check_origin() -> None:
    """The request comes from one of our pages, as far as the browser tells. Problem 403."""
    if not _same_origin():
        raise Problem("csrf")


def _same_origin() -> bool:
    """By Sec-Fetch-Site, which a page cannot set; else by Origin; without either the token alone decides."""
    site = request.headers.get("Sec-Fetch-Site")
    if site:
        return site in ("same-origin", "none")
    origin = request.headers.get("Origin")
    if not origin:
        return True
    ours = urlsplit(base_url())
    return origin in (f"{ours.scheme}://{ours.netloc}", f"{request.scheme}://{request.host}")
