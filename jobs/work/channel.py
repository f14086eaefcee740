"""The line between a worker and its horse: small JSON messages, one a line, over a pair of sockets.

The worker says `{"do": "work"}`, `{"do": "clean", …}`, `{"do": "cancel"}`, `{"do": "go on"}`; the horse tells what
becomes of the job: `{"tell": "claimed" | "progress" | "log" | "left" | "done" | "bell", …}`.
"""

import json
import select
import socket
import threading
from typing import Any

_CHUNK = 65536


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """One end. Sending waits while the other end is behind; it may be done from any thread, receiving from one."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._lock = threading.Lock()
        self._rest = b""
        self._heard: list[dict[str, Any]] = []

    @staticmethod
    def pair() -> tuple["Channel", "Channel"]:
        """Two connected ends, which no program that is executed inherits."""
        one, other = socket.socketpair()
        return Channel(one), Channel(other)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, **message: Any) -> None:
        """Closed when nobody is at the other end."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._lock:
                self._socket.sendall(line)
        except OSError as error:
            raise Closed from error

    def receive(self, timeout: float | None = 0) -> dict[str, Any] | None:
        """The next message, or None when none came within `timeout` seconds (None: wait). Closed after the last."""
        while not self._heard:
            if not select.select([self._socket], [], [], timeout)[0]:
                return None
            self._read()
        return self._heard.pop(0)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            raise Closed
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._heard += [json.loads(line) for line in lines]

    def close(self) -> None:
        self._socket.close()
