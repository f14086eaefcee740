"""A wire between browser and server on which a test can pull: it counts, cuts, holds and silences connections."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PIECE = 65536


@dataclass(eq=False)
class Strand:
    """One connection; `asked` is the first line of the last request seen on it."""

    client: socket.socket
    server: socket.socket
    asked: str = ""
    silent: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass                # it was gone already


class Wire:
    """Forwards a free port to a server. `url` is where a browser shall go."""

    def __init__(self, url: str):
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._strands: set[Strand] = set()
        self._free = threading.Event()
        self._free.set()
        self._slow = ""
        self.refusing = False
        self.asked: list[str] = []      # first lines of all requests, in order; "" for a connection that was refused
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def open(self) -> list[str]:
        """What was asked last on each connection that is open."""
        with self._lock:
            return [strand.asked for strand in self._strands]

    @property
    def streams(self) -> list[str]:
        """The connections on which events are streamed."""
        return [asked for asked in self.open if "/events" in asked or "follow=true" in asked]

    def cut(self) -> None:
        """End every connection."""
        with self._lock:
            strands = list(self._strands)
        for strand in strands:
            strand.close()

    def refuse(self) -> None:
        """End every connection and every new one, until `mend`."""
        self.refusing = True
        self.cut()

    def mend(self) -> None:
        self.refusing = False

    def silence(self, path: str) -> None:
        """What the server says on the connections that asked for the path is lost; they stay open."""
        with self._lock:
            for strand in self._strands:
                if path in strand.asked:
                    strand.silent.set()

    @contextmanager
    def holding(self, path: str) -> Iterator[None]:
        """Bodies of requests for the path do not get through meanwhile, or until `go`, beyond their first piece."""
        self._slow = path
        self._free.clear()
        try:
            yield
        finally:
            self.go()

    def go(self) -> None:
        self._free.set()

    def close(self) -> None:
        self._free.set()
        self._door.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return              # closed
            if self.refusing:
                self.asked.append("")
                client.close()
                continue
            strand = Strand(client, socket.create_connection(self._target))
            with self._lock:
                self._strands.add(strand)
            threading.Thread(target=self._upstream, args=[strand], daemon=True).start()
            threading.Thread(target=self._downstream, args=[strand], daemon=True).start()

    def _upstream(self, strand: Strand) -> None:
        def note(piece: bytes) -> None:
            line = piece.split(b"\r\n", 1)[0]
            if line.endswith(b" HTTP/1.1"):
                strand.asked = line.decode()
                self.asked.append(strand.asked)
            elif self._slow and self._slow in strand.asked:
                self._free.wait()

        self._pump(strand.client, strand.server, note)
        with self._lock:
            self._strands.discard(strand)
        strand.close()

    def _downstream(self, strand: Strand) -> None:
        self._pump(strand.server, strand.client, lambda _: None, strand.silent)
        strand.close()

    def _pump(self, source: socket.socket, target: socket.socket, note, silent: threading.Event | None = None) -> None:
        try:
            while piece := source.recv(_PIECE):
                note(piece)
                if not (silent and silent.is_set()):
                    target.sendall(piece)
        except OSError:
            pass                    # one end has gone
