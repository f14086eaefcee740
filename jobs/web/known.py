"""The active jobs as they were last seen: what fast progress is added to, and one row for all who wait for the same job."""

from typing import Any

from jobs.web.frames import Change

_MOST = 10_000


class Known:
    """The newest change of each active job, as far as anybody heard of it."""

    def __init__(self):
        self._changes: dict[int, Change] = {}

    def remember(self, change: Change) -> Change:
        """Keep it if it is news; answer the one to use for this version, so that equal ones are held once."""
        job = change.row.id
        known = self._changes.get(job)
        if known and change.version is not None and change.version <= known.row.version:
            return known if known.version == change.version else change
        if change.final:
            self._changes.pop(job, None)
        else:
            self._changes[job] = change
            if len(self._changes) > _MOST:
                del self._changes[next(iter(self._changes))]
        return change

    def hasten(self, message: dict[str, Any]) -> Change | None:
        """The fast progress of a message as a change; None when nothing is known of its job, or it is old."""
        known = self._changes.get(int(message["id"]))
        return known and known.hastened(message)

    def clear(self) -> None:
        """Nobody listens any more."""
        self._changes.clear()
