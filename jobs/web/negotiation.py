"""What a client accepts (RFC 9110, section 12.5.1). A blueprint calls `check` before its views."""

from collections.abc import Callable
from typing import TypeVar

from flask import current_app, request

from jobs.errors import Problem

View = TypeVar("View", bound=Callable)
JSON, TEXT, EVENTS = "application/json", "text/plain", "text/event-stream"


def produces(*media_types: str) -> Callable[[View], View]:
    """Mark what a view answers with, the default first; an unmarked one speaks JSON."""
    def mark(view: View) -> View:
        view.produces = media_types
        return view
    return mark


def check() -> None:
    """Problem 406, whose Accept lists what there is, when the client takes none of it."""
    if request.method != "OPTIONS":
        demand(*getattr(current_app.view_functions[request.endpoint], "produces", (JSON,)))


def demand(*offered: str) -> None:
    """Problem 406 when the client takes none of these."""
    if chosen(*offered) is None:
        raise Problem("not-acceptable", f"This comes as {' or '.join(offered)} only.",
                      headers={"Accept": ", ".join(offered)})


def chosen(*offered: str) -> str | None:
    """The media type that the client likes best, the first of equals; None when it accepts none of them."""
    accepted = request.accept_mimetypes
    if not accepted:
        return offered[0]
    liked = max(offered, key=accepted.quality)
    return liked if accepted.quality(liked) > 0 else None
