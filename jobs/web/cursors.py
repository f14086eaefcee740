"""Opaque cursors: where a page ended, bound to the filter with which it was read."""

import base64
import binascii
import hashlib
import json
from typing import Any
from urllib.parse import urlencode

from flask import request

from jobs.errors import Problem


def fingerprint(scope: Any) -> str:
    """A short name for a filter, so that a cursor used with another one is noticed."""
    return hashlib.sha256(json.dumps(scope, sort_keys=True, default=str).encode()).hexdigest()[:8]


def make(last_id: int, scope: str) -> str:
    """The cursor behind this id."""
    return base64.urlsafe_b64encode(f"{last_id}.{scope}".encode()).decode().rstrip("=")


def read(cursor: str, scope: str) -> int:
    """The id in a cursor; Problem 400 when it is not ours or belongs to another filter."""
    try:
        last_id, _, found = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii").partition(".")
        number = int(last_id) if last_id.isdigit() and len(last_id) <= 18 else None
    except (binascii.Error, ValueError):
        number, found = None, ""
    if number is None:
        raise Problem("bad-cursor")
    if found != scope:
        raise Problem("bad-cursor", "The cursor belongs to another filter.")
    return number


def read_version(text: str) -> int:
    """The version in a cursor of the feed; Problem 400."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Problem("bad-cursor")
    return int(text)


def next_url(base_url: str, cursor: str) -> str:
    """The address of the following page: this request's query with the new cursor."""
    query = [(name, value) for name, value in request.args.items(multi=True) if name != "cursor"]
    return f"{base_url}{request.path}?{urlencode([*query, ('cursor', cursor)])}"
