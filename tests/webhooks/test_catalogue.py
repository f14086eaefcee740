"""The catalogue of events is part of the API: what was published does not change its shape."""

import json
from pathlib import Path

from jobs.webhooks import catalogue

GOLDEN = Path(__file__).parent / "event-types.json"


def test_published_events_keep_their_shape():
    """A new type is added to the file; a line that is there is never changed and never removed."""
    now = {event.type: event.describe() for event in catalogue.event_types(["videos"])}
    assert now == json.loads(GOLDEN.read_text())


def test_the_catalogue_and_what_leaves_the_server_are_the_same():
    names = {event.type for event in catalogue.event_types(["videos"])} - {"ping"}
    assert all(catalogue.is_public(name) for name in names)
    for name in ("job.queued", "job.requeued", "job.cancelRequested", "job.ready", "video.cancelled"):
        assert not catalogue.is_public(name)
