"""How many jobs wait in each queue, so that pollers of a long queue are told to come less often."""

from collections.abc import Mapping

from flask import current_app

from jobs import clock
from jobs.core import tallies
from jobs.web.site import site

_FRESH = 1.0  # seconds; a hint needs no exact figure, and a poll no query of its own


def lengths() -> Mapping[str, int]:
    """Queue → jobs that wait in it, as of the last second."""
    known_at, known = current_app.extensions.get("accepted.backlog", (None, {}))
    now = clock.monotonic()
    if known_at is None or now - known_at > _FRESH:
        known = tallies.waiting(site().db.read())
        current_app.extensions["accepted.backlog"] = now, known
    return known
