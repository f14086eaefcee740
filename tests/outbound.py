"""Real counterparts on loopback for everything that goes out: a DNS server, HTTP servers, and a resolver for them."""

import http.server
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address


class DnsServer:
    """A small DNS server: `answers(name, asked)` gives the addresses of a name at its `asked`-th query (from 0)."""

    def __init__(self, answers: Callable[[str, int], list[str]]):
        self._answers = answers
        self.asked: dict[str, int] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = self._socket.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                query, client = self._socket.recvfrom(512)
                self._socket.sendto(self._answer(query), client)
            except OSError:
                return  # closed

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += query[at] + 1
        question, kind, name = query[12:at + 5], query[at + 1:at + 3], ".".join(labels)
        count = self.asked.get(name, 0)
        if kind == b"\0\x01":
            self.asked[name] = count + 1
        version = {b"\0\x01": 4, b"\0\x1c": 6}[kind]
        found = [a for a in map(ip_address, self._answers(name, count)) if a.version == version]
        records = b"".join(b"\xc0\x0c" + kind + b"\0\x01" + struct.pack(">IH", 0, len(a.packed)) + a.packed
                           for a in found)
        return query[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, len(found), 0, 0) + question + records

    def resolve(self, host: str, port: int) -> list[str]:
        """A resolver for the guard that asks this server for AAAA and A records over UDP."""
        found = []
        for kind in (28, 1):
            name = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(5)
                question = name + struct.pack(">BHH", 0, kind, 1)
                sock.sendto(struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + question, self.address)
                reply = sock.recv(4096)
            at = 12 + len(name) + 5
            for _ in range(struct.unpack(">H", reply[6:8])[0]):
                length = struct.unpack(">H", reply[at + 10:at + 12])[0]
                found.append(str(ip_address(reply[at + 12:at + 12 + length])))
                at += 12 + length
        if not found:
            raise OSError(f"no address for {host}")
        return found

    def close(self) -> None:
        self._socket.close()


@contextmanager
def http_server(answer: Callable[[http.server.BaseHTTPRequestHandler], None], wrap=None) -> Iterator[int]:
    """An HTTP server on a free loopback port; `answer` gets the handler, `.body` read. `wrap` puts TLS around it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, TimeoutError):
                self.close_connection = True

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.body = self.rfile.read(length)
            if len(self.body) == length:  # else the other side died while it sent
                answer(self)

        do_POST = do_GET

        def log_message(self, *args) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 200

        def handle_error(self, request, client_address) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if wrap:
        server.socket = wrap(server.socket)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(handler: http.server.BaseHTTPRequestHandler, status: int = 200, body: bytes = b"", **headers: str) -> None:
    """Answer and close; header names are written with underscores (`Retry_After="7"`)."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = True


@dataclass
class Received:
    """One request as it came."""

    path: str
    headers: dict
    body: bytes


class Receiver:
    """A receiver of callbacks; `answer(handler)` decides what it does."""

    def __init__(self):
        self.got: list[Received] = []
        self.answer = reply
        self.came = threading.Condition()
        self.url = ""

    def handle(self, handler) -> None:
        with self.came:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.got.append(Received(handler.path, headers, handler.body))
            self.came.notify_all()
        self.answer(handler)

    def wait_for(self, number: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.got) >= number, 60), f"{len(self.got)} of {number} came"


@contextmanager
def receiving():
    receiver = Receiver()
    with http_server(receiver.handle) as port:
        receiver.url = f"http://127.0.0.1:{port}"
        yield receiver
