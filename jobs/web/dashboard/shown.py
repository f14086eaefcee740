"""A job as the pages show it: what a template asks for, computed from the row."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flask_babel import gettext

from jobs import clock
from jobs.core import access
from jobs.core.access import Caller
from jobs.core.states import ACTIVE, RETRYABLE, WITH_RESULT, Status
from jobs.db import Row
from jobs.errors import KINDS
from jobs.web.dashboard import tree, words
from jobs.web.dashboard.told import told
from jobs.work.job_type import JobType, Registry


@dataclass(frozen=True)
class Shown:
    """One job for one reader."""

    row: Row
    declared: JobType | None
    caller: Caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self.row, name)

    @property
    def title(self) -> str:
        """The type's name for people."""
        return told(self.declared.title, self.declared) if self.declared else self.row.type

    @property
    def active(self) -> bool:
        return self.row.status in ACTIVE

    @property
    def running(self) -> bool:
        return self.row.status == Status.RUNNING

    @property
    def queued(self) -> bool:
        return self.row.status == Status.QUEUED

    @property
    def can_cancel(self) -> bool:
        return self.active and not self.row.cancel_requested_at and access.may_steer(self.caller, self.row.owner)

    @property
    def can_retry(self) -> bool:
        return bool(self.declared) and self.row.status in RETRYABLE and access.may_steer(self.caller, self.row.owner)

    @property
    def can_purge(self) -> bool:
        return not self.active and access.may_steer(self.caller, self.row.owner)

    @property
    def stopping(self) -> bool:
        return self.running and bool(self.row.cancel_requested_at)

    @property
    def waits_until(self) -> str | None:
        """The instant before which it will not start, while that lies ahead."""
        due = self.row.get("due_at")
        return due if self.queued and due and due > clock.wire(clock.now()) else None

    @property
    def ends(self) -> str | None:
        """When it will probably end, while that lies ahead."""
        return self.row.eta if self.row.eta and self.row.eta > clock.wire(clock.now()) else None

    @property
    def is_another_try(self) -> bool:
        return self.queued and self.row.attempt > 0

    @property
    def took(self) -> str | None:
        """From the first start to the end."""
        if not (self.row.started_at and self.row.finished_at):
            return None
        return words.duration((clock.parse(self.row.finished_at) - clock.parse(self.row.started_at)).total_seconds())

    @cached_property
    def hint(self) -> str:
        """A few words out of the payload that tell this job from its siblings."""
        try:
            payload = json.loads(self.row.payload or "null")
        except (ValueError, RecursionError):
            return ""
        return tree.visible(_hint(payload))[:120]

    @cached_property
    def tags(self) -> list[str]:
        return [tree.visible(tag) for tag in json.loads(self.row.tags or "[]")]

    @cached_property
    def problem(self) -> "Trouble | None":
        return trouble(self.row.error)

    def trouble_of(self, attempt: Row) -> "Trouble | None":
        """What went wrong in one of its attempts."""
        return trouble(attempt.error)

    @cached_property
    def payload_tree(self) -> tree.Node | None:
        return tree.grow(self.row.payload)

    @cached_property
    def result_tree(self) -> tree.Node | None:
        return tree.grow(self.row.result) if self.row.status in WITH_RESULT else None

    @property
    def has_result(self) -> bool:
        return self.row.status in WITH_RESULT and self.row.result_size > 0 and self.row.result != "null"


@dataclass(frozen=True)
class Trouble:
    """A stored problem document, for reading."""

    slug: str
    status: int | None
    title: str
    detail: str
    help: str
    parts: list[tuple[str, str]]     # (which part, why)


def trouble(document: str | None) -> Trouble | None:
    """The problem in a job's or an attempt's `error`; None when there is none."""
    if not document:
        return None
    members = json.loads(document)
    slug = str(members.get("type", "")).rpartition("/")[2]
    kind = KINDS.get(slug)
    title = gettext(kind.title) if kind else tree.visible(members.get("title", ""))
    detail = tree.visible(members.get("detail") or "")[:4 * tree.MAX_TEXT]
    parts = [(tree.visible(one.get("part") or one.get("pointer") or ""),
              tree.visible(one.get("detail", ""))[:tree.MAX_TEXT])
             for one in members.get("errors") or () if isinstance(one, dict)]
    return Trouble(slug if kind else "", members.get("status"), title, detail, gettext(kind.help) if kind else "",
                   parts[:100])


def show(rows: Iterable[Row], registry: Registry, caller: Caller) -> list[Shown]:
    """The rows for this reader."""
    return [Shown(row, registry.get(row.type), caller) for row in rows]


def _hint(payload: Any) -> str:
    """The shortest telling words: text and lists of text first, then numbers, of at most three members."""
    if not isinstance(payload, dict):
        return ""
    telling = []
    for value in payload.values():
        if isinstance(value, str) and value.startswith("/v1/"):
            continue  # an upload's address tells nothing
        if isinstance(value, str) and value and value != "•••":
            telling.append(value.rsplit("/", 1)[-1] if value.startswith(("http://", "https://", "/")) else value)
        elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            telling.append(", ".join(value[:6]))
    return " · ".join(one[:60] for one in telling[:3])
