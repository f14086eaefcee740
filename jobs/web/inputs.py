"""The fields of a payload that name something to read: an upload, an artifact, or an address elsewhere."""

import re
from typing import Any

from jobs.artifacts import records
from jobs.core.access import Caller, may_see
from jobs.db import Reader
from jobs.errors import Problem

_ARTIFACT = re.compile(r"(?:/v1/artifacts/)?([1-9][0-9]{0,17})(?:/content|/signed/.+)?")
_ELSEWHERE = re.compile(r"https?://", re.IGNORECASE)


def resolve(reader: Reader, caller: Caller, url: Any, base_url: str, pointer: str = "#") -> int | None:
    """The id of the artifact that `url` names (an id, its path, or that under our own URL), or None for an address elsewhere.

    Problem 422 `unknown-input` when it is neither, or an artifact that this caller may not read: both look the same.
    """
    text = str(url) if isinstance(url, (str, int)) and not isinstance(url, bool) else ""
    path = text.removeprefix(base_url)
    match = _ARTIFACT.fullmatch(path)
    if not match and _ELSEWHERE.match(text) and not path.startswith("/v1/artifacts/"):
        return None
    row = records.get(reader, int(match[1])) if match else None
    if row is None or row.kind == "folder" or not may_see(caller, row.owner):
        raise Problem("unknown-input", errors=[{"pointer": pointer, "detail": "There is no such file."}])
    return row.id
