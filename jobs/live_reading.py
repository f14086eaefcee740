"""How requests are read, so that nobody holds a thread by being slow.

A connection waits in gunicorn's poller until the head of its request is here, with the body as far as that is small, and
is closed when that takes too long. What is left of a body is read on the request's thread, at a pace that is enforced.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.unreader import SocketUnreader
from werkzeug.exceptions import BadRequest, RequestTimeout

from jobs import clock

MOST_AHEAD = 64 * 1024
"""Bytes of a request that are read before it gets a thread: its whole head must fit."""

_PATIENCE = 60.0   # seconds of silence in the middle of a body
_PACE = 500        # bytes per second at least, on the whole
_PIECE = 16 * 1024
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:", re.IGNORECASE)


class HeadTooLarge(Exception):
    """The head of the request is larger than MOST_AHEAD."""


class TooSlow(RequestTimeout, TimeoutError):
    """The body came too slowly."""


class PacedReader(SocketUnreader):
    """Reads a connection: what has come, without waiting, or on a request's thread for as long as the pace allows."""

    _deadline: float | None = None

    def has_request(self) -> bool:
        """Take what has come, without waiting; whether a thread can be given to it. ConnectionError at its end.

        The length that the head tells is a hint about when to begin; what it means is for the parser alone to say.
        """
        held = self.buf.getvalue()
        while not self._suffices(held):
            try:
                piece = self.sock.recv(_PIECE)
            except BlockingIOError:
                return False
            if not piece:
                raise ConnectionError("the client has gone")
            self.unread(self.take_buffered() + piece)
            held += piece
        self._deadline = None
        return True

    def chunk(self, size_hint: int | None = None) -> bytes:
        """The next piece, waited for. TooSlow when it does not come, or all that came took too long."""
        now = clock.monotonic()
        if self._deadline is None:
            self._deadline = now + _PATIENCE
        before = self.sock.gettimeout()
        left = self._deadline - now
        if left <= 0:
            raise TooSlow
        self.sock.settimeout(left if before is None else min(before, left))
        try:
            piece = super().chunk(size_hint)
        except TimeoutError as error:
            raise TooSlow from error
        finally:
            self.sock.settimeout(before)
        self._deadline = min(self._deadline + len(piece) / _PACE, clock.monotonic() + _PATIENCE)
        return piece

    @staticmethod
    def _suffices(held: bytes) -> bool:
        end = held.find(_END)
        if end < 0:
            if len(held) > MOST_AHEAD:
                raise HeadTooLarge
            return False
        length = _LENGTH.search(held, 0, end + 2)
        if length is None or _EXPECT.search(held, 0, end + 2):
            return True
        return len(held) >= min(end + len(_END) + int(length[1]), MOST_AHEAD)


class Input:
    """A request's body for the application. What is wrong with its framing is the client's fault: werkzeug's BadRequest."""

    def __init__(self, body: Any):
        self._body = body

    def read(self, size: int | None = None) -> bytes:
        return self._told(self._body.read, size)

    def readline(self, size: int | None = None) -> bytes:
        return self._told(self._body.readline, size)

    def readlines(self, size: int | None = None) -> list[bytes]:
        return self._told(self._body.readlines, size)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    @staticmethod
    def _told(read: Callable[[int | None], Any], size: int | None) -> Any:
        try:
            return read(size)
        except (ParseException, NoMoreData) as error:
            raise BadRequest("The body's chunks cannot be read, or end too early.") from error
