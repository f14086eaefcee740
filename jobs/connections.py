"""HTTP connections that go to checked addresses and end in time.

Host header, SNI and certificate check use the name; proxies from the environment are not used. A time limit is one for
the whole exchange, however slowly the other side drips.
"""

import functools
import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import certifi
import urllib3
import urllib3.util.ssl_match_hostname
from urllib3.connection import HTTPConnection, HTTPSConnection

from jobs import clock
from jobs.addresses import Address, Target

IDLE_TIMEOUT = 30.0


class Unreachable(OSError):
    """The target could not be reached, or broke off. `kind` is dns, connect, tls, timeout or protocol."""

    def __init__(self, kind: str, detail: str):
        super().__init__(detail)
        self.kind = kind


class Timer:
    """How long an exchange may still take."""

    def __init__(self, seconds: float):
        self._deadline = clock.monotonic() + seconds

    def limit(self, seconds: float) -> None:
        """From now on at most `seconds` more."""
        self._deadline = min(self._deadline, clock.monotonic() + seconds)

    def left(self) -> float:
        """Seconds for the next step; TimeoutError when there are none."""
        left = self._deadline - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, IDLE_TIMEOUT)


class _Timed:
    """A socket that asks a timer before each step: a time-out per step alone would let a slow drip go on for ever."""

    timer: Timer | None = None

    def recv_into(self, *args, **options):
        if self.timer:
            self.settimeout(self.timer.left())
        return super().recv_into(*args, **options)

    def sendall(self, *args, **options):
        if self.timer:
            self.settimeout(self.timer.left())
        return super().sendall(*args, **options)


class _TimedSocket(_Timed, socket.socket):
    """A plain connection."""


class _TimedTlsSocket(_Timed, ssl.SSLSocket):
    """A TLS connection."""


class _Checked:
    """A connection that goes to addresses, never to a name."""

    addresses: list[Address]
    timer: Timer

    def _new_conn(self) -> socket.socket:
        for place, address in enumerate(self.addresses):
            others = len(self.addresses) - place - 1
            try:
                # The time left is shared out, so that a dead first address leaves some for the others.
                return self._open(address, self.timer.left() / (others + 1))
            except OSError:
                if not others:
                    raise

    def _open(self, address: Address, seconds: float) -> socket.socket:
        sock = _TimedSocket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(seconds)
            sock.connect((str(address), self.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(self.timer.left())      # bounds the TLS handshake
            sock.timer = self.timer
            return sock
        except OSError:
            sock.close()
            raise


class _Plain(_Checked, HTTPConnection):
    """http"""


class _Tls(_Checked, HTTPSConnection):
    """https"""

    def connect(self) -> None:
        super().connect()
        self.sock.timer = self.timer


def connection_to(target: Target, addresses: list[Address], timer: Timer) -> HTTPConnection:
    """A connection, not yet open, to the first of `addresses` that answers."""
    if target.scheme == "https":
        connection = _Tls(target.host, target.port, ssl_context=_tls_context())
    else:
        connection = _Plain(target.host, target.port)
    connection.addresses, connection.timer = addresses, timer
    return connection


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Trusts the system's certificates (SSL_CERT_FILE too) and, for systems that have none, certifi's."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.sslsocket_class = _TimedTlsSocket
    return context


@contextmanager
def network(host: str) -> Iterator[None]:
    """Turn whatever a network step raises into Unreachable. Keep only network steps in the block."""
    try:
        yield
    except (TimeoutError, urllib3.exceptions.TimeoutError) as error:
        raise Unreachable("timeout", f"{host} did not answer in time.") from error
    except (ssl.SSLError, urllib3.exceptions.SSLError, urllib3.util.ssl_match_hostname.CertificateError) as error:
        raise Unreachable("tls", f"No safe connection to {host}: {getattr(error, 'reason', None) or error}.") from error
    except OSError as error:
        raise Unreachable("connect", f"No connection to {host}: {error.strerror or error}.") from error
    except (urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError) as error:
        raise Unreachable("protocol", f"The answer of {host} cannot be read: {type(error).__name__}.") from error
