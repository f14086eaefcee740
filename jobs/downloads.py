"""Downloads from outside, through the guard: whole, or broken off in a way that the next try can go on from.

A broken download of a source that names a strong version of itself is resumed with Range and If-Range (RFC 9110, sections
13.1.5 and 14.2): the source then sends the rest, or all of it again when it has changed.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from urllib.parse import quote, unquote, urljoin

from urllib3.response import BaseHTTPResponse

from jobs import clock
from jobs.addresses import parse_url
from jobs.connections import Unreachable, network
from jobs.errors import Problem, Retry
from jobs.partials import Partial, version_of
from jobs.targets import Guard, retry_after

MAX_REDIRECTS = 5
LONGEST_WAIT = 86400.0      # seconds; a source may ask for years
_CHUNK = 65536
_REDIRECTS = {301, 302, 303, 307, 308}
_WORTH_REPEATING = {408, 425, 429, 500, 502, 503, 504}
_OWN_CODING = (".gz", ".tgz", ".svgz")      # files that are gzip themselves; servers like to call that their coding
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,100}/[\w!#$&^.+-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class Fetched:
    """A whole download: bytes, media type (without parameters, or None), a harmless file name, hex SHA-256.

    `resumed`: it begins with what an earlier try had left.
    """

    size: int
    media_type: str | None
    name: str
    sha256: str
    resumed: bool = False


def download(guard: Guard, url: str, to: Path, *, max_bytes: int, timeout: float,
             on_progress: Callable[[int, int | None], None] = lambda done, total: None, resume: bool = False,
             earlier: Iterable[Path] = ()) -> Fetched:
    """Download `url` into the file `to`, following up to five redirects, each checked like the first address.

    `on_progress(bytes so far, total or None)` is called for every part; what it raises ends the download. Problem
    `target-forbidden`, `too-large` (over `max_bytes`) or `source-unavailable`; Retry when a later attempt may do.
    Nothing is left in `to` unless all of it arrived; with `resume`, what arrived stays there, with a note beside it, as far
    as the source lets a later call with the same `to`, or with that among `earlier`, go on from it.
    """
    deadline, at, hops = clock.monotonic() + timeout, url, 0
    with Partial(to, url, resume, [to, *earlier]) as partial:
        while hops <= MAX_REDIRECTS:
            headers = {"Accept-Encoding": "identity", **partial.headers}
            try:
                with guard.stream("GET", at, headers=headers, timeout=deadline - clock.monotonic()) as (response, _timer):
                    location = response.headers.get("Location")
                    if response.status in _REDIRECTS and location:
                        at, hops = _follow(at, location), hops + 1
                        continue
                    fetched = _receive(response, partial, max_bytes, on_progress, at)
            except Unreachable as error:
                raise _later(str(error)) from error
            if fetched:
                return fetched
            at, hops = url, 0
        raise Problem("source-unavailable", f"The source redirected more than {MAX_REDIRECTS} times.")


def _receive(response: BaseHTTPResponse, partial: Partial, max_bytes: int, on_progress: Callable, url: str) -> Fetched | None:
    """Fill the file from this answer. None: more has to be asked for, the rest of it or all of it anew."""
    total = partial.joins(response)
    if partial.size and total is None and response.status in (206, 416):
        partial.drop()      # what we have the beginning of is no longer there
        return None
    if response.status in _WORTH_REPEATING:
        raise _later(f"The source answered {response.status}.", retry_after(response.headers))
    if response.status not in (200, 203) and total is None:
        raise Problem("source-unavailable", f"The source answered {response.status}.")
    name = _name(response.headers.get("Content-Disposition"), url)
    coding = _coding(response, name)
    if coding and total is not None:
        partial.drop()
        return None
    is_rest, before = total is not None, partial.size
    if not is_rest:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() and not coding else None
        partial.begin("" if coding else version_of(response))
    _fill(partial, _unzipped(_parts(response)) if coding else _parts(response), total, max_bytes, on_progress)
    if is_rest and partial.size != total:
        if not before < partial.size < total:
            partial.drop()
            raise _later("The source sent another part than it said.")
        return None
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return Fetched(partial.size, media_type if _MEDIA_TYPE.fullmatch(media_type) else None, name, partial.digest.hexdigest(),
                   partial.begun_at > 0)


def _fill(partial: Partial, parts: Iterator[bytes], total: int | None, max_bytes: int, on_progress: Callable) -> None:
    at_least = max(total or 0, partial.size)
    while at_least <= max_bytes:
        part = next(parts, None)
        if part is None:
            return
        at_least = max(at_least, partial.size + len(part))
        if at_least <= max_bytes:
            partial.write(part)
            on_progress(partial.size, total)
    partial.drop()
    raise Problem("too-large", f"The source is larger than {max_bytes} bytes.")


def _later(detail: str, after: float | None = None) -> Retry:
    return Retry(None if after is None else min(after, LONGEST_WAIT), problem=Problem("source-unavailable", detail))


def _coding(response: BaseHTTPResponse, name: str) -> str:
    """How the body is coded although it was asked for as it is: "gzip" or "". Problem where that cannot be undone."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding in ("gzip", "x-gzip"):
        return "" if name.lower().endswith(_OWN_CODING) else "gzip"
    if coding not in ("", "identity"):
        raise Problem("source-unavailable", f"The source sends the file coded as {coding[:40]}, although it was asked not to.")
    return ""


def _follow(url: str, location: str) -> str:
    """Where a Location leads (RFC 9110, section 10.2.2); what should have been percent-encoded in it is."""
    try:
        return urljoin(url, quote(location.encode("latin-1", "replace"), safe="%/:?#[]@!$&'()*+,;=~"))
    except ValueError:
        raise Problem("source-unavailable", "The source redirects to an address that cannot be read.") from None


def _parts(response: BaseHTTPResponse) -> Iterator[bytes]:
    """The body as it comes; Unreachable when it breaks off."""
    parts = response.stream(_CHUNK, decode_content=False)
    while True:
        with network("The source"):
            part = next(parts, None)
        if part is None:
            return
        yield part


def _unzipped(parts: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip had packed, in pieces of a bounded size; Unreachable if it is damaged or ends too early."""
    inflater = zlib.decompressobj(31)
    try:
        for part in parts:
            while part:
                yield inflater.decompress(part, _CHUNK)
                part = inflater.unconsumed_tail
                if inflater.eof and inflater.unused_data:       # a gzip file may be several, one after the other
                    part, inflater = inflater.unused_data, zlib.decompressobj(31)
        yield inflater.flush()
    except zlib.error:
        raise Unreachable("protocol", "What the source sends as gzip is none.") from None
    if not inflater.eof:
        raise Unreachable("protocol", "What the source sends as gzip ends too early.")


def _name(disposition: str | None, url: str) -> str:
    """A file name without a path: from Content-Disposition (RFC 6266), else the end of the URL, else `download`."""
    message = Message()
    message["Content-Disposition"] = _as_utf8(disposition or "")
    try:
        given = message.get_filename()
    except (LookupError, UnicodeError, ValueError):     # a charset of its own making
        given = None
    given = given or unquote(parse_url(url).path.partition("?")[0])
    name = "".join(c for c in given.replace("\\", "/").rpartition("/")[2] if c.isprintable()).strip(" .")
    return name[-200:] or "download"


def _as_utf8(header: str) -> str:
    """A header that holds UTF-8, which http.client reads as Latin-1 (RFC 9110, section 5.5 lets it be either)."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header
