"""Server-sent events as bytes (WHATWG HTML §9.2): rows of the feed in, blocks out. Pure.

Two habits of public clients rule the form: a block without `data:` becomes an empty event in some, so the keep-alive is
one comment line and `retry:` stands inside an event's block; and each block of a job is made once, for all who watch it.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from jobs.core import reads
from jobs.core.states import Status
from jobs.db import Row

KEEP_ALIVE = b":\n"
RETRY = 3_000
"""Milliseconds after which a client whose stream was cut comes again."""
RETRY_WHEN_FULL = 30_000
LARGEST_RESULT = 64 * 1024
"""Bytes of a result that still travel inside `done`; a larger one is named by `resultUrl`."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def compact(members: dict[str, Any]) -> str:
    """JSON without spaces, characters as they are."""
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def block(event: str, data: str, id: int | str | None = None) -> bytes:
    """One event; `data` may hold any line breaks."""
    lines = [f"data: {line}" for line in _LINE_BREAK.split(data)]
    head = [f"id: {id}"] if id is not None else []
    return "\n".join([*head, f"event: {event}", *lines, "", ""]).encode()


def retry(milliseconds: int) -> bytes:
    """The field that tells a client when to come again; it goes in front of a block, never alone."""
    return b"retry: %d\n" % milliseconds


def cursor(last_event_id: str | None) -> int | None:
    """The version in a Last-Event-ID header; None for anything that we never sent."""
    return int(last_event_id) if last_event_id and re.fullmatch(r"[0-9]{1,18}", last_event_id) else None


def line(row: Row) -> bytes:
    """The event `line`: one line of a job's log, whose id it bears."""
    members = {"id": row.id, "attempt": row.attempt, "at": row.created_at, "line": row.line}
    return block("line", json.dumps(members, ensure_ascii=False), row.id)


def log_end(job: Row, after: int) -> bytes:
    """The event `done` that ends a followed log. It bears the last line's id, or 0: who comes back with it is told 204."""
    return block("done", json.dumps({"status": job.status}), after)


class Change:
    """One piece of news about a job: a row of the feed, or what a doorbell's message adds to the row last seen.

    Rows of the feed lack big payloads and results; `load(id)` fetches the whole row, once for all watchers, and only when
    one of them shows it. Messages have no version of their own: `version` is None.
    """

    __slots__ = ("row", "version", "base_url", "_load", "_full", "_blocks")

    def __init__(self, row: Row, base_url: str, load: Callable[[int], Row | None] | None = None, on_disk: bool = True):
        self.row = row
        self.version: int | None = row.version if on_disk else None
        self.base_url = base_url
        self._load = load
        self._full: Row | None = None
        self._blocks: dict[bool, bytes] = {}

    @property
    def full(self) -> Row:
        """The row with payload and result, however big."""
        if self._full is None:
            cut = self.row.payload is None or (self.row.result is None and self.row.result_size > 0)
            self._full = (self._load(self.row.id) if cut and self._load else None) or self.row
        return self._full

    @property
    def gone(self) -> bool:
        """The row is a tombstone: the job was purged or has expired."""
        return self.row.purged_at is not None

    @property
    def final(self) -> bool:
        """Nothing will follow for this job."""
        return self.gone or reads.is_terminal(self.row)

    def hastened(self, message: dict[str, Any]) -> "Change | None":
        """This with the fast progress of a message in it; None when the message is older than what is known."""
        row = self.row
        if row.status != Status.RUNNING or message.get("attempt") != row.attempt:
            return None
        if message.get("at", row.updated_at) < row.updated_at:  # its stage may be old although its progress is not
            return None
        progress = message.get("progress")
        if progress is not None and row.progress is not None and progress < row.progress:
            return None
        return Change(Row(row, progress=progress, stage=message.get("stage")), self.base_url, on_disk=False)

    def block(self, named: bool) -> bytes:
        """The event `progress` or `done`; `named` puts the job's id into it (streams of many jobs)."""
        if named not in self._blocks:
            event = "done" if reads.is_terminal(self.row) else "progress"
            self._blocks[named] = block(event, self._data(named), self.version)
        return self._blocks[named]

    def _data(self, named: bool) -> str:
        row = self.row
        members = ({"id": str(row.id)} if named else {}) | reads.summary(row)
        result = error = None
        if reads.is_terminal(row):
            error = reads.absolute(row.error, self.base_url)
            result = self.full.result if row.result_size <= LARGEST_RESULT else None
            if row.result_size and (result is None or len(result.encode()) > LARGEST_RESULT):
                members["resultUrl"], result = f"/v1/jobs/{row.id}/result", None
        text = compact(members)
        for name, fragment in (("result", result), ("error", error)):
            if fragment is not None:
                text = f'{text[:-1]},"{name}":{fragment}}}'
        return text
