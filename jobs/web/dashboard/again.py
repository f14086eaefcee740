"""A form filled in like an earlier job (`?like=501`), and what of that job its submission keeps.

With the same payload it is a retry of the earlier job, where that can be retried: options may differ (contract,
section 6). With another payload it is a new job. A secret is never shown: ••• stands for it and is exchanged for the
secret when the form comes back.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flask import request
from flask_babel import gettext
from werkzeug.datastructures import MultiDict

from jobs import clock
from jobs.artifacts import records
from jobs.core import access, reads
from jobs.core.access import Caller
from jobs.core.states import RETRYABLE, Priority
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth, bodies, inputs, schemas
from jobs.web.dashboard import forms
from jobs.web.schemas import COVERED
from jobs.web.site import base_url, site
from jobs.work.job_type import JobType

_MOST_FILES = 20    # names of files that are told


@dataclass(frozen=True)
class Earlier:
    """The job that a form was filled in like, for this caller."""

    row: Row
    declared: JobType
    caller: Caller

    @property
    def id(self) -> int:
        return self.row.id

    @property
    def may_retry(self) -> bool:
        """Whether sending the same payload again is a retry."""
        return self.row.status in RETRYABLE and access.may_steer(self.caller, self.row.owner)

    @property
    def is_own(self) -> bool:
        """Whether its secrets may go into another job: somebody else's serve an unchanged retry alone."""
        return self.row.owner == self.caller.owner

    @property
    def left_out(self) -> list[str]:
        """Members of its payload that the type does not take any more."""
        return sorted(self._shown.keys() - {one.name for one in forms.inputs(self.declared)})

    def form(self) -> MultiDict:
        """The form that describes the job: its payload and its options. `keep.NAME` stands for a secret."""
        form = forms.written(forms.inputs(self.declared), self._shown)
        form.update({f"option.{name}": text for name, text in self._options()})
        form["option.tags"] = self._tags
        return form

    def has_options(self, form: MultiDict) -> bool:
        """Whether the form says more about the job than that its priority is normal."""
        return any(text not in ("", str(Priority.NORMAL)) for name, text in form.items()
                   if name.startswith("option.") and name != "option.zone")

    def covers(self, name: str) -> bool:
        """Whether it has a secret there."""
        return self._shown.get(name) == COVERED

    def files(self, text: str) -> Iterator[Row]:
        """The uploads and artifacts that a field names, one to a line, as far as the caller may read them."""
        for line in text.split("\n")[:_MOST_FILES]:
            try:
                artifact_id = inputs.resolve(site().db.read(), self.caller, line.strip(), base_url())
            except Problem:
                continue
            if artifact_id is not None:
                yield records.get(site().db.read(), artifact_id)

    def unfit(self) -> dict[str, list[tuple[str, str]]]:
        """What the type would not accept any more, by field. A secret is not judged: the message could tell it."""
        secret = {name for name, value in self._shown.items() if value != self._whole[name]}
        _, found = schemas.judge(self.declared.schema, self._whole, "#/payload")
        silent = {f"payload.{name}" for name in secret.union(self.left_out)}
        return {field: texts for field, texts in forms.faults(found).items() if field not in silent}

    def uncover(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload with the earlier secrets where it says •••."""
        return {name: _uncover(value, self._shown.get(name), self._whole.get(name)) for name, value in payload.items()}

    def is_same(self, payload: Mapping[str, Any]) -> bool:
        """Whether it asks for the same; what the form cannot tell apart (absent, null, the default) is the same."""
        if payload == self._whole:
            return True
        loaded, faults = schemas.judge(self.declared.schema, payload)
        before, more_faults = schemas.judge(self.declared.schema, self._whole)
        return not faults and not more_faults and loaded == before

    def overrides(self, form: MultiDict, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a retry, out of those that the form says: what was emptied there is not kept."""
        none = {"priority": str(Priority.NORMAL), "callbackUrl": None, "notBefore": None, "tags": [], **self._usual}
        same_tags = {"tags": json.loads(self.row.tags)} if form.get("option.tags", "").strip() == self._tags else {}
        return none | dict(options) | same_tags

    @cached_property
    def _shown(self) -> dict[str, Any]:
        return bodies.parse(self.row.payload.encode())

    @cached_property
    def _whole(self) -> dict[str, Any]:
        return bodies.parse(self.row.payload_private.encode()) if self.row.payload_private else self._shown

    @property
    def _tags(self) -> str:
        return ", ".join(json.loads(self.row.tags)).strip()

    @property
    def _usual(self) -> dict[str, int]:
        """The limits of a job that says nothing about them."""
        settings = site().settings
        return {"timeout": self.declared.timeout or round(settings.job_timeout),
                "maxAttempts": self.declared.max_attempts or settings.max_attempts}

    def _options(self) -> Iterator[tuple[str, str]]:
        row = self.row
        yield "priority", str(Priority.of(row.priority))
        if row.callback_url:
            yield "callbackUrl", row.callback_url
        if row.not_before and row.not_before > clock.wire(clock.now()):
            yield "notBefore", row.not_before[:19]
            yield "zone", "0"       # UTC: the server does not know the reader's zone
        for name, number in (("timeout", row.timeout), ("maxAttempts", row.max_attempts)):
            if number != self._usual[name]:
                yield name, str(number)


def wanted() -> bool:
    """Whether the request names an earlier job."""
    return bool(_like(request.args))


def find(declared: JobType, names: Mapping[str, str]) -> Earlier | None:
    """The job that `like` names; None when it is not there (any more), is foreign, or of another type."""
    job_id, caller = _like(names), auth.caller()
    row = reads.get(site().db.read(), job_id) if job_id else None
    if row is None or row.purged_at or row.type != declared.name or not access.may_see(caller, row.owner):
        return None
    return Earlier(row, declared, caller)


def exchange(declared: JobType, payload: Mapping[str, Any], earlier: Earlier | None) -> dict[str, Any]:
    """The payload with its secrets. Problem 422 where ••• stands for one that may not, or cannot, be put there."""
    whole = earlier.uncover(payload) if earlier else dict(payload)
    if earlier and (earlier.is_own or earlier.may_retry and earlier.is_same(whole)):
        left = whole
    else:
        left = payload
    if faults := [{"pointer": f"#/payload/{name}", "detail": "The earlier secret is not at hand. Write it anew."}
                  for name in left if _still_covered(declared, left, name)]:
        raise Problem("invalid-payload", errors=faults)
    return whole


def notes(earlier: Earlier | None) -> list[str]:
    """What to tell above a form that was to be filled in like an earlier job."""
    if earlier is None:
        return [gettext("The earlier job is not there any more; the form is empty.")]
    told = [gettext("Filled in like job #%(id)s. With the same payload it is a retry of it, with another one a new job.", id=earlier.id)
            if earlier.may_retry else gettext("Filled in like job #%(id)s.", id=earlier.id)]
    if earlier.unfit():
        told.append(gettext("The earlier payload does not fit this job type any more. Change what is marked."))
    if earlier.left_out:
        told.append(gettext("Left out, since this type does not take it any more: %(names)s.", names=", ".join(earlier.left_out)))
    return told


def _like(names: Mapping[str, str]) -> int | None:
    text = names.get("like", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _uncover(sent: Any, shown: Any, whole: Any) -> Any:
    if sent == COVERED == shown:
        return whole
    if isinstance(sent, dict) and isinstance(shown, dict):
        return {name: _uncover(value, shown.get(name), whole.get(name)) for name, value in sent.items()}
    if isinstance(sent, list) and isinstance(shown, list):
        return [_uncover(value, *(pair[place] if place < len(pair) else None for pair in (shown, whole)))
                for place, value in enumerate(sent)]
    return sent


def _still_covered(declared: JobType, payload: Mapping[str, Any], name: str) -> bool:
    """Whether ••• is left in this member where a secret belongs."""
    marked = schemas.cover(declared.schema, {name: _replaced(payload[name])})
    return _meet(payload[name], marked[name])


def _replaced(value: Any) -> Any:
    """The value with another text for •••, which only a secret's field covers again."""
    if isinstance(value, dict):
        return {name: _replaced(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner) for inner in value]
    return "" if value == COVERED else value


def _meet(sent: Any, marked: Any) -> bool:
    """Whether both read ••• at the same place."""
    if isinstance(sent, dict) and isinstance(marked, dict):
        return any(_meet(value, marked[name]) for name, value in sent.items())
    if isinstance(sent, list) and isinstance(marked, list):
        return any(map(_meet, sent, marked))
    return sent == COVERED == marked
