"""The types of events that are told to the outside: part of the versioned API, guarded by a golden test.

What is published here never changes its shape; something better comes as a new type, and the old one is marked
deprecated.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jobs.core.resources import singular


@dataclass(frozen=True)
class EventType:
    """One type of event. `since` is the version of the API that brought it."""

    type: str
    title: str
    since: str = "1.0"
    deprecated: bool = False

    def describe(self) -> dict[str, Any]:
        """The entry of the catalogue, with the JSON Schema (2020-12) of the whole body."""
        return {"type": self.type, "title": self.title, "since": self.since, "deprecated": self.deprecated,
                "schema": _schema(self.type)}


JOB_EVENTS = (
    EventType("job.started", "An attempt at the job has begun"),
    EventType("job.succeeded", "The job has succeeded; its result can be read"),
    EventType("job.failed", "The job has failed for good; its error can be read"),
    EventType("job.cancelled", "The job was cancelled"),
    EventType("job.partialSuccess", "The job has ended; some parts were done, its error names the others"),
)
PING = EventType("ping", "A test that somebody asked for; nothing happened")
_RESOURCE_EVENTS = {"ready": "is ready and can be read", "failed": "could not be made"}
_JOB_TYPES = {event.type for event in JOB_EVENTS}


def event_types(collections: Iterable[str]) -> list[EventType]:
    """The catalogue of a server with these collections."""
    return [*JOB_EVENTS, PING, *(EventType(f"{noun}.{what}", f"The {noun.replace('-', ' ')} {title}")
                                 for noun in sorted(map(singular, collections))
                                 for what, title in _RESOURCE_EVENTS.items())]


def is_public(type_: str) -> bool:
    """Whether events of this type leave the server; the others are a job's own timeline."""
    noun, _, what = type_.rpartition(".")
    return type_ in _JOB_TYPES if noun == "job" else what in _RESOURCE_EVENTS


def _schema(type_: str) -> dict[str, Any]:
    path = {"type": "string", "pattern": "^/v1/"}
    data = {"job": path, "version": {"type": "integer"}}
    if type_ == "ping":
        data = {"endpoint": path}
    elif type_ not in _JOB_TYPES:
        data["resource"] = path
    return _object({
        "id": {"type": "string", "pattern": "^evt_"}, "type": {"const": type_},
        "createdAt": {"type": "string", "format": "date-time"}, "data": _object(data),
    })


def _object(members: dict[str, Any]) -> dict[str, Any]:
    """Every member is there; more may come, so receivers must ignore what they do not know."""
    return {"type": "object", "properties": members, "required": list(members)}
