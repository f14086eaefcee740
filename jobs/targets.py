"""The guard on everything that goes out: callbacks, sources named by clients, downloads of job types.

Every address of every answer of the resolver is checked, at every attempt, and the connection is made to a checked
address, never to a name; so a name that changes its answer between check and use gains nothing.
"""

import http.client
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ipaddress import ip_address

import urllib3

from jobs import clock
from jobs.addresses import Address, AllowList, BadTarget, Target, parse_url, refusal
from jobs.connections import Timer, Unreachable, connection_to, network
from jobs.errors import Problem

RESOLVE_TIMEOUT = 5.0


@dataclass(frozen=True)
class Answer:
    """What a target answered. `body` is the first part of it as it came; header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
                    raise _forbidden(f"{host} leads to {reason} that ACCEPTED_ALLOWED_TARGETS does not list."
                                     if str(address) != host else
                                     f"{host} is {reason} that ACCEPTED_ALLOWED_TARGETS does not list.")
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
