"""Downloads from outside, through the guard: whole, or broken off in a way that the next try can go on from.

A broken download of a source that names a strong version of itself is resumed with Range and If-Range (RFC 9110, sections
13.1.5 and 14.2): the source then sends the rest, or all of it again when it has changed.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote, unquote, urljoin

from urllib3.response import BaseHTTPResponse

from jobs import clock
from jobs.addresses import parse_url
from jobs.connections import Unreachable, network
from jobs.errors import Problem, Retry
from jobs.targets import Guard, retry_after

MAX_REDIRECTS = 5
_CHUNK = 65536
_REDIRECTS = {301, 302, 303, 307, 308}
_WORTH_REPEATING = {408, 425, 429, 500, 502, 503, 504}
_SETTLED = 60       # seconds that a Last-Modified must lie back to name one version only (RFC 9110, section 8.8.2.2)


@dataclass(frozen=True)
class Fetched:
    """A whole download: bytes, media type (without parameters, or None), a harmless file name, hex SHA-256."""

    size: int
    media_type: str | None
    name: str
    sha256: str


def download(guard: Guard, url: str, to: Path, *, max_bytes: int, timeout: float,
             on_progress: Callable[[int, int | None], None] = lambda done, total: None, resume: bool = False) -> Fetched:
    """Download `url` into the file `to`, following up to five redirects, each checked like the first address.

    `on_progress(bytes so far, total or None)` is called for every part; what it raises ends the download. Problem
    `target-forbidden`, `too-large` (over `max_bytes`) or `source-unavailable`; Retry when a later attempt may do.
    Nothing is left in `to` unless all of it arrived; with `resume`, what arrived stays there, with a note beside it, as far
    as the source lets a later call with the same `to` go on from it.
    """
    deadline, held, first = clock.monotonic() + timeout, _Held(to, url, resume), url
    hops = 0
    while hops <= MAX_REDIRECTS:
        headers = {"Accept-Encoding": "identity", **held.headers}
        try:
            with guard.stream("GET", url, headers=headers, timeout=deadline - clock.monotonic()) as (response, _timer):
                location = response.headers.get("Location")
                if response.status in _REDIRECTS and location:
                    url, hops = _follow(url, location), hops + 1
                elif held.size and (response.status == 416 or response.status == 206 and not held.continues(response)):
                    held.drop()     # what we have the beginning of is no longer there: all of it, then
                    url, hops = first, 0
                else:
                    _judge(response, held)
                    return _save(response, held, max_bytes, on_progress, url)
        except Unreachable as error:
            raise Retry(reason=str(error)) from error
    raise Problem("source-unavailable", f"The source redirected more than {MAX_REDIRECTS} times.")


class _Held:
    """What an earlier call left of a download, and the note that says which version of the source it is."""

    def __init__(self, path: Path, url: str, resumes: bool):
        self.path, self._url, self._resumes = path, url, resumes
        self._note = path.with_name(path.name + ".note")
        self.size, self._version = 0, ""
        try:
            noted = json.loads(self._note.read_text("utf-8"))
            if resumes and noted["url"] == url:
                self.size, self._version = path.stat().st_size, noted["version"]
        except (OSError, ValueError, KeyError):
            pass
        if not self.size:
            self.drop()

    @property
    def headers(self) -> dict[str, str]:
        """What asks for the rest."""
        return {"Range": f"bytes={self.size}-", "If-Range": self._version} if self.size else {}

    def continues(self, response: BaseHTTPResponse) -> bool:
        """Whether it is the rest that was asked for."""
        if response.status != 206:
            return False
        match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        return bool(self.size and match and int(match[1]) == self.size)

    def begin(self, response: BaseHTTPResponse) -> None:
        """All of it comes, and not the rest: note its version, if it has one that a later call can rely on."""
        self.drop()
        self._version = _version(response)
        if self._resumes and self._version:
            self._note.write_text(json.dumps({"url": self._url, "version": self._version}), "utf-8")

    def break_off(self) -> None:
        """Keep what a later call can go on from, and nothing else."""
        if not (self._resumes and self._version):
            self.drop()

    def end(self) -> None:
        """It is whole."""
        self._note.unlink(missing_ok=True)

    def drop(self) -> None:
        """Forget what came."""
        self.size = 0
        self._note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _version(response: BaseHTTPResponse) -> str:
    """A strong validator of what is sent, or an empty text (RFC 9110, section 8.8)."""
    etag = response.headers.get("ETag", "")
    if _coded(response) or etag.startswith("W/"):
        return ""
    if etag:
        return etag
    modified = response.headers.get("Last-Modified", "")
    try:
        age = parsedate_to_datetime(response.headers.get("Date", "")) - parsedate_to_datetime(modified)
    except (TypeError, ValueError):
        return ""
    return modified if age.total_seconds() >= _SETTLED else ""


def _coded(response: BaseHTTPResponse) -> bool:
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


def _follow(url: str, location: str) -> str:
    """Where a Location leads (RFC 9110, section 10.2.2); what should have been percent-encoded in it is."""
    try:
        return urljoin(url, quote(location.encode("latin-1", "replace"), safe="%/:?#[]@!$&'()*+,;=~"))
    except ValueError:
        raise Problem("source-unavailable", "The source redirects to an address that cannot be read.") from None


def _judge(response: BaseHTTPResponse, held: _Held) -> None:
    if response.status in _WORTH_REPEATING:
        raise Retry(retry_after(response.headers), f"The source answered {response.status}.")
    if response.status not in (200, 203) and not held.continues(response):
        raise Problem("source-unavailable", f"The source answered {response.status}.")


def _save(response: BaseHTTPResponse, held: _Held, max_bytes: int, on_progress: Callable, url: str) -> Fetched:
    if response.status != 206:
        held.begin(response)
    length = response.headers.get("Content-Length", "")
    total = held.size + int(length) if length.isdecimal() and not _coded(response) else None
    try:
        with held.path.open("a+b") as file:
            file.seek(0)
            digest, done = hashlib.file_digest(file, "sha256"), held.size
            for part in _parts(response):
                done += len(part)
                if max(done, total or 0) > max_bytes:
                    held.drop()
                    raise Problem("too-large", f"The source is larger than {max_bytes} bytes.")
                digest.update(part)
                file.write(part)
                on_progress(done, total)
    except BaseException:
        held.break_off()
        raise
    held.end()
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower() or None
    return Fetched(done, media_type, _name(response.headers.get("Content-Disposition"), url), digest.hexdigest())


def _parts(response: BaseHTTPResponse) -> Iterator[bytes]:
    """The body, decoded where the server coded it although it was asked not to."""
    parts = response.stream(_CHUNK, decode_content=True)
    while True:
        with network("The source"):
            part = next(parts, None)
        if part is None:
            return
        yield part


def _name(disposition: str | None, url: str) -> str:
    """A file name without a path: from Content-Disposition (RFC 6266), else the end of the URL, else `download`."""
    message = Message()
    message["Content-Disposition"] = disposition or ""
    given = message.get_filename() or unquote(parse_url(url).path.partition("?")[0])
    name = "".join(c for c in given.replace("\\", "/").rpartition("/")[2] if c.isprintable()).strip(" .")
    return name[-200:] or "download"
