"""The guard on everything that goes out: callbacks, sources named by clients, downloads of job types.

Every address of every answer of the resolver is checked, at every attempt, and the connection is made to a checked
address, never to a name; so a name that changes its answer between check and use gains nothing.
"""

import hashlib
import http.client
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, unquote, urljoin

import urllib3

from jobs import clock
from jobs.addresses import Address, AllowList, BadTarget, Target, parse_url, refusal
from jobs.connections import Timer, Unreachable, connection_to, network
from jobs.errors import Problem, Retry

MAX_REDIRECTS = 5
RESOLVE_TIMEOUT = 5.0
_CHUNK = 65536
_REDIRECTS = {301, 302, 303, 307, 308}
_WORTH_REPEATING = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Answer:
    """What a target answered. `body` is the first part of it as it came; header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Fetched:
    """A whole download: bytes, media type (without parameters, or None), a harmless file name, hex SHA-256."""

    size: int
    media_type: str | None
    name: str
    sha256: str


def system_resolver(host: str, port: int) -> list[str]:
    """Every address of a name, as the system's resolver knows it."""
    return [info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Guard:
    """Lets requests out to public addresses, and to what the operator listed. Safe to share between threads.

    `resolver(host, port)` returns addresses as text and raises OSError when there are none.
    """

    def __init__(self, allowed_targets: Iterable[str] = (), *,
                 resolver: Callable[[str, int], list[str]] = system_resolver):
        self._allowed = AllowList(allowed_targets)
        self._resolver = resolver

    def check_url(self, url: str, pointer: str | None = None) -> Target:
        """Judge a URL when it is handed in; Problem `target-forbidden` (422) if it may not be used.

        `pointer` (`#/callbackUrl`) names the member that held it. A name that does not resolve yet passes: it is
        checked again, like any other, at each attempt.
        """
        try:
            target = self._parse(url)
            try:
                self.resolve(target.host, target.port)
            except Unreachable:
                if target.inner and not self._allowed.host(target.host, target.port):
                    raise _forbidden(f"{target.host} is a name for inner networks.") from None
            return target
        except Problem as problem:
            if pointer:
                problem.extra["errors"] = [{"pointer": pointer, "detail": problem.detail}]
            raise

    def resolve(self, host: str, port: int, timeout: float = RESOLVE_TIMEOUT) -> list[Address]:
        """All addresses of `host`, each one allowed. Problem `target-forbidden` if any is not; Unreachable if none."""
        try:
            found = [ip_address(host)]
        except ValueError:
            found = self._ask(host, port, timeout)
        if not self._allowed.host(host, port):
            for address in found:
                reason = refusal(address)
                if reason and not self._allowed.address(address, port):
                    what = f"{host} leads to {reason}" if str(address) != host else f"{host} is {reason}"
                    raise _forbidden(f"{what} that ACCEPTED_ALLOWED_TARGETS does not list.")
        return found

    def request(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None,
                timeout: float = 15.0, max_answer: int = 1024) -> Answer:
        """One exchange; redirects are answers like any other. `timeout` seconds bound all of it, resolving included.

        The head of the answer decides; its body is an excerpt, waited for two seconds at most, and what breaks while
        it is read breaks nothing. Problem `target-forbidden`; Unreachable.
        """
        with self.stream(method, url, body=body, headers=headers, timeout=timeout) as (response, timer):
            timer.limit(2.0)
            excerpt = b""
            try:
                while len(excerpt) < max_answer and (part := response.read1(max_answer - len(excerpt))):
                    excerpt += part
            except (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError):
                pass
            return Answer(response.status, response.headers, excerpt)

    @contextmanager
    def stream(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None,
               timeout: float) -> Iterator[tuple[urllib3.response.BaseHTTPResponse, Timer]]:
        """Send a request and hand out the response with its body unread; closed when the block ends."""
        timer = Timer(timeout)
        target = self._parse(url)
        addresses = self.resolve(target.host, target.port, min(timeout, RESOLVE_TIMEOUT))
        connection = connection_to(target, addresses, timer)
        try:
            with network(target.host):
                connection.connect()
                connection.request(method, target.path, body=body or None, preload_content=False,
                                   decode_content=False, headers={"User-Agent": "Accepted/1", **(headers or {})})
                response = connection.getresponse()
            yield response, timer
        finally:
            connection.close()

    def fetch(self, url: str, to: Path, *, max_bytes: int, timeout: float,
              on_progress: Callable[[int, int | None], None] | None = None) -> Fetched:
        """Download `url` into the file `to`, following up to five redirects, each checked like the first address.

        `on_progress(bytes so far, total or None)` is called for every part; what it raises ends the download. Problem
        `target-forbidden`, `too-large` (over `max_bytes`) or `source-unavailable`; Retry when a later attempt may do.
        Nothing is left in `to` unless all of it arrived.
        """
        deadline = clock.monotonic() + timeout
        try:
            for _ in range(MAX_REDIRECTS + 1):
                with self.stream("GET", url, headers={"Accept-Encoding": "identity"},
                                 timeout=deadline - clock.monotonic()) as (response, _timer):
                    location = response.headers.get("Location")
                    if response.status in _REDIRECTS and location:
                        url = _follow(url, location)
                        continue
                    _judge(response)
                    return _save(response, to, max_bytes, on_progress or (lambda done, total: None), url)
        except Unreachable as error:
            raise Retry(reason=str(error)) from error
        raise Problem("source-unavailable", f"The source redirected more than {MAX_REDIRECTS} times.")

    def _parse(self, url: str) -> Target:
        try:
            return parse_url(url)
        except BadTarget as fault:
            raise _forbidden(str(fault)) from None

    def _ask(self, host: str, port: int, timeout: float) -> list[Address]:
        """Ask the resolver on a thread of its own: the system's takes no time limit and may hang for half a minute."""
        answers: queue.SimpleQueue = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self._resolver(host, port))
            except (OSError, UnicodeError) as error:
                answers.put(error)

        threading.Thread(target=ask, name="resolver", daemon=True).start()
        try:
            found = answers.get(timeout=max(timeout, 0.001))
        except queue.Empty:
            raise Unreachable("dns", f"The name {host} could not be resolved in time.") from None
        if isinstance(found, Exception) or not found:
            raise Unreachable("dns", f"The name {host} could not be resolved.")
        return list(dict.fromkeys(ip_address(text) for text in found))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that Retry-After asks for (RFC 9110, section 10.2.3), or None where it is absent or unreadable."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - clock.now()).total_seconds())
    except (TypeError, ValueError):
        return None


def _forbidden(detail: str) -> Problem:
    return Problem("target-forbidden", detail)


def _follow(url: str, location: str) -> str:
    """Where a Location leads (RFC 9110, section 10.2.2); what should have been percent-encoded in it is."""
    try:
        return urljoin(url, quote(location.encode("latin-1", "replace"), safe="%/:?#[]@!$&'()*+,;=~"))
    except ValueError:
        raise Problem("source-unavailable", "The source redirects to an address that cannot be read.") from None


def _judge(response: urllib3.response.BaseHTTPResponse) -> None:
    if response.status in _WORTH_REPEATING:
        raise Retry(retry_after(response.headers), f"The source answered {response.status}.")
    if response.status not in (200, 203):
        raise Problem("source-unavailable", f"The source answered {response.status}.")


def _save(response, to: Path, max_bytes: int, on_progress: Callable, url: str) -> Fetched:
    coded = response.headers.get("Content-Encoding", "identity").lower() != "identity"
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() and not coded else None
    digest, done = hashlib.sha256(), 0
    try:
        with to.open("wb") as file:
            for part in _parts(response):
                done += len(part)
                if max(done, total or 0) > max_bytes:
                    raise Problem("too-large", f"The source is larger than {max_bytes} bytes.")
                digest.update(part)
                file.write(part)
                on_progress(done, total)
    except BaseException:
        to.unlink(missing_ok=True)
        raise
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower() or None
    return Fetched(done, media_type, _name(response.headers.get("Content-Disposition"), url), digest.hexdigest())


def _parts(response) -> Iterator[bytes]:
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
