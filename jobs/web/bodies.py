"""Reading a JSON body strictly: what is accepted can be stored, shown and read again without surprise."""

import json
import math
from collections import Counter
from contextlib import suppress
from typing import Any

from flask import request
from werkzeug.exceptions import HTTPException

from jobs.errors import Problem
from jobs.web import schemas
from jobs.web.site import site

MAX_DEPTH = 100
_JSON = "application/json"
_PIECE, _MOST_DRAINED = 64 * 1024, 64 * 1024**2


def read_object(optional: bool = False) -> dict[str, Any]:
    """The request's JSON object; with `optional` an empty body is an empty object.

    Problems: 415 wrong media type, 413 over the limit, 400 malformed, 422 not an object.
    """
    data = read_bytes(site().settings.max_body)
    if optional and not data.strip():
        return {}
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if charset not in ("utf-8", "us-ascii"):
        raise Problem("unsupported-media-type", "JSON is sent in UTF-8.", headers={"Accept": _JSON})
    if request.mimetype != _JSON and not request.mimetype.endswith("+json"):
        raise Problem("unsupported-media-type", f"Send the body as Content-Type: {_JSON}.", headers={"Accept": _JSON})
    value = parse(data)
    if not isinstance(value, dict):
        raise schemas.fault("#", "The body is a JSON object.")
    return value


def read_bytes(limit: int) -> bytes:
    """The whole body, at most `limit` bytes; Problem 413 when it is longer, however it is framed."""
    data = request.stream.read(limit + 1) if (request.content_length or 0) <= limit else None
    if data is None or len(data) > limit:
        _drain()
        raise Problem("too-large", f"The body may have at most {limit} bytes.")
    return data


def _drain() -> None:
    """Take the rest of the body, within reason: a connection with unread bytes must be closed, and then some clients
    see a broken connection instead of the answer."""
    with suppress(HTTPException):  # the rest does not come, or cannot be read: then there is nothing to take
        for _ in range(_MOST_DRAINED // _PIECE):
            if not request.stream.read(_PIECE):
                return


def parse(data: bytes) -> Any:
    """JSON (RFC 8259) of at most 100 levels; no duplicate keys, NaN, Infinity or lone surrogates. Problem 400."""
    if not data.strip():
        raise Problem("malformed-json", "The body is empty.")
    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique)
        _check_depth(value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate cannot be stored
    except UnicodeDecodeError:
        raise Problem("malformed-json", "The body is not UTF-8.") from None
    except UnicodeEncodeError:
        raise Problem("malformed-json", "The body has a lone surrogate, which stands for no character.") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Problem("malformed-json", f"{error}.") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large for a number with a fraction or exponent")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"The key {json.dumps(twice)} stands twice in one object")
    return members


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> Problem:
    return Problem("malformed-json", f"The body is nested more than {MAX_DEPTH} levels deep.")
