"""Where a watcher's words go: a parked socket, or the queue of a thread that waits under an ordinary WSGI server."""

import queue
import selectors
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jobs.web.watchers import Watcher

if TYPE_CHECKING:
    from jobs.web.hub import Hub

LARGEST_BACKLOG = 1024 * 1024
"""When more bytes than these still wait and the next come, the reader is too slow; it is dropped, and may resume."""
_LARGEST_EARLY = 64 * 1024
_LARGEST_QUEUE = 1000


class Seat(ABC):
    """One waiting client. The hub's thread alone calls what follows; `hub` is set when it sits down."""

    __slots__ = ("watcher", "hub", "ending", "alarm", "later_alarm")
    hub: "Hub"

    def __init__(self, watcher: Watcher):
        self.watcher = watcher
        self.ending = False  # nothing more comes; what has been said may still be on its way
        self.alarm = self.later_alarm = float("inf")  # when the hub looks after it, and when again
        watcher.seat = self

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether the client has not taken yet what was sent."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send a piece of a stream, without waiting."""

    @abstractmethod
    def answer(self, response: Any) -> None:
        """Send the one answer of a poll and end."""

    @abstractmethod
    def end(self) -> None:
        """Nothing more comes: let the client have what waits for it, then leave."""

    @abstractmethod
    def drop(self) -> None:
        """Leave at once."""

    def flush(self) -> None:
        """Send what has been gathered."""


class SocketSeat(Seat):
    """A socket that belongs to the hub's event loop.

    `prefix` goes out in front of the first piece (a stream's head). `encode(response)` makes the bytes of an answer and
    says whether the connection may be kept. `release(keep, early)` gives it back: to be used again, with the bytes that
    the client has already sent, or, if not `keep`, to be forgotten, for the hub has closed it.
    """

    __slots__ = ("sock", "_release", "_chunked", "_encode", "_backlog", "_early", "_keep", "_left", "_interest")

    def __init__(self, watcher: Watcher, sock: socket.socket, release: Callable[[bool, bytes], None], *, prefix: bytes = b"",
                 chunked: bool = False, encode: Callable[[Any], tuple[bytes, bool]] | None = None):
        super().__init__(watcher)
        self.sock = sock
        self._release, self._chunked, self._encode = release, chunked, encode
        self._backlog = prefix
        self._early = b""
        self._keep = self._left = False
        self._interest = selectors.EVENT_READ

    @property
    def busy(self) -> bool:
        return bool(self._backlog)

    def send(self, data: bytes) -> None:
        if self._left or self.ending:
            return
        if len(self._backlog) > LARGEST_BACKLOG:
            return self.drop()
        self._backlog += b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
        self.flush()

    def answer(self, response: Any) -> None:
        if self._left or self.ending:
            return
        data, self._keep = self._encode(response)
        self._backlog += data
        self._conclude()

    def end(self) -> None:
        if self._left or self.ending:
            return
        if self._chunked:
            self._backlog += b"0\r\n\r\n"
        self._conclude()

    def drop(self) -> None:
        self._leave(keep=False)

    def flush(self) -> None:
        """Send what the socket takes; the rest when it is writable again."""
        while self._backlog and not self._left:
            try:
                self._backlog = self._backlog[self.sock.send(self._backlog):]
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                return self.drop()
        if self.ending and not self._backlog:
            return self._leave(self._keep)
        interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._backlog else 0)
        if interest != self._interest and not self._left:
            self._interest = interest
            self.hub.selector.modify(self.sock, interest, self)

    def ready(self, mask: int) -> None:
        """The selector found the socket readable (the client went, or sends its next request already) or writable."""
        if self._left:
            return
        if mask & selectors.EVENT_READ:
            try:
                data = self.sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                data = None
            except OSError:
                data = b""
            if data is not None:
                self._early += data
                if not data or len(self._early) > _LARGEST_EARLY:
                    return self.drop()
        if mask & selectors.EVENT_WRITE:
            self.flush()

    def _conclude(self) -> None:
        self.ending = True
        self.flush()
        if not self._left:
            self.hub.linger(self)

    def _leave(self, keep: bool) -> None:
        if self._left:
            return
        self._left = True
        self.hub.left(self)
        if not keep:
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the client went first
            self.sock.close()
        self._release(keep, self._early)
        self._release = self._encode = None  # the hub's alarms may remember the seat for a while


class QueueSeat(Seat):
    """A thread that takes pieces, or one response, from a queue; None ends it."""

    __slots__ = ("_queue", "_ended")

    def __init__(self, watcher: Watcher):
        super().__init__(watcher)
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._ended = False

    @property
    def busy(self) -> bool:
        return self._queue.qsize() > 0

    def take(self) -> Any:
        """Wait for the next piece (bytes), the response, or None at the end."""
        return self._queue.get()

    def send(self, data: bytes) -> None:
        if self._queue.qsize() > _LARGEST_QUEUE:
            self.drop()
        elif not self._ended:
            self._queue.put(data)

    def answer(self, response: Any) -> None:
        if not self._ended:
            self._queue.put(response)
        self.drop()

    def end(self) -> None:
        self.drop()

    def drop(self) -> None:
        if not self._ended:
            self._ended = True
            self.hub.left(self)
            self._queue.put(None)
