"""The filter of the list of jobs, as its address says it: made to be typed, sent on and kept as a bookmark."""

import re
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from flask import request

from jobs import clock
from jobs.core.states import Status

_LONGEST = 200


@dataclass(frozen=True)
class Search:
    """Text as typed. `since` and `until` are a date, or a date and time, at `zone` minutes west of UTC."""

    status: str = ""
    type: str = ""
    tag: str = ""
    owner: str = ""
    q: str = ""
    since: str = ""
    until: str = ""
    zone: str = ""

    def query(self, **changes: str) -> dict[str, str]:
        """The parameters of an address that says this, with changes; nothing that is empty."""
        values = vars(replace(self, **changes))
        if not values["since"] and not values["until"]:
            values["zone"] = ""
        return {name: value for name, value in values.items() if value}

    @property
    def narrow(self) -> bool:
        """Whether it asks for more than a status."""
        return bool(self.query(status=""))

    @property
    def detailed(self) -> bool:
        """Whether it uses one of the fields that are folded away otherwise."""
        return bool(self.tag or self.owner or self.since or self.until)

    def wanted(self) -> dict[str, Any]:
        """The same as keywords of `reads.page`."""
        found: dict[str, Any] = {name: (value,) for name in ("status", "type", "tag") if (value := getattr(self, name))}
        found |= {name: value for name in ("owner", "q") if (value := getattr(self, name))}
        if since := _instant(self.since, self.zone):
            found["created_after"] = clock.wire(since - timedelta(milliseconds=1))  # that one is exclusive
        if until := _instant(self.until, self.zone, whole_day=True):
            found["created_before"] = clock.wire(until)
        return found


def of_address() -> Search:
    """The filter that the address names; what cannot be one is left out, since a person may have typed it."""
    given = {one.name: (request.args.get(one.name) or "").strip()[:_LONGEST].replace("\0", "") for one in fields(Search)}
    if given["status"] not in list(Status):
        given["status"] = ""
    for name in ("since", "until"):
        if _instant(given[name], given["zone"]) is None:
            given[name] = ""
    return Search(**given)


def _instant(text: str, zone: str, whole_day: bool = False):
    """When that is; None when it is no time. A date alone means its beginning, or its end if `whole_day`."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(?::(\d\d)(?:\.\d+)?)?)?", text)
    if not match:
        return None
    west = int(zone) if re.fullmatch(r"-?\d{1,3}", zone) else 0
    try:
        start = clock.parse(f"{match[1]}T{match[2] or '00:00'}:{match[3] or '00'}Z")
        return start + timedelta(minutes=west, days=1 if whole_day and not match[2] else 0)
    except (ValueError, OverflowError):
        return None
