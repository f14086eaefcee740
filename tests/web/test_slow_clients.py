"""Clients that are slow, silent or clumsy hold up nobody, whether or not they have a key."""

import json
import socket
import threading
import time

import pytest

from jobs import live_reading, live_worker
from jobs.live_reading import PacedReader, TooSlow
from tests.web.conftest import Live

MANY = 40   # several times the threads of the web process


def connected(port, data):
    """Connections on which only this has been sent."""
    clients = []
    for _ in range(MANY):
        clients.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        clients[-1].sendall(data)
    return clients


HALVES = {
    "nothing": b"",
    "half a head": b"GET /facts HTTP/1.1\r\nHost: x\r\nX-More: ",
    "half a body": b"POST /facts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nkey=",
    "half of a second request": b"GET /facts HTTP/1.1\r\nHost: x\r\n\r\nGET /facts HTTP/1.1\r\nHos",
    "an end that the client does not close": b"GET /facts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "what is no request": b"GET /facts\r\n\r\n",
}


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A server that would wait two minutes for the rest of a request."""
    running = Live(tmp_path_factory.mktemp("patient"), keep_alive=120).start()
    yield running
    running.stop()


@pytest.mark.parametrize("sent", HALVES.values(), ids=HALVES)
def test_who_sends_half_a_request_holds_up_nobody(patient, sent):
    clients = connected(patient.port, sent)
    assert patient.facts()["seats"] == 0        # or the request would time out
    for client in clients:
        client.close()


def test_a_dripping_head_ends(live):
    """However steadily the drops come: gunicorn's --keepalive, 2 s here, is the limit for the whole."""
    client = socket.create_connection(("127.0.0.1", live.port), timeout=60)
    client.sendall(b"GET /facts HTTP/1.1\r\nX-Long: ")
    client.settimeout(0.1)
    began = time.monotonic()
    with pytest.raises(OSError):
        while time.monotonic() - began < 60:
            client.sendall(b"x")
            try:
                if client.recv(1) == b"":
                    raise ConnectionError
            except TimeoutError:
                pass
    assert 1 < time.monotonic() - began < 40
    client.close()


def test_a_request_in_small_pieces_is_answered(live):
    client = socket.create_connection(("127.0.0.1", live.port), timeout=60)
    for byte in b"GET /facts HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc":
        client.sendall(bytes([byte]))
    answer = b""
    while piece := client.recv(65536):
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ")


REFUSED = {
    b"GET /\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde": 400,
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\n": 400,
    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n": 414,
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n": 431,
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 300 + b"\r\n": 431,
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000: 431,
}


@pytest.mark.parametrize(("sent", "status"), REFUSED.items(), ids=[repr(sent[:40]) for sent in REFUSED])
def test_what_is_no_request_gets_a_problem(house, sent, status):
    with socket.create_connection(("127.0.0.1", int(house.settings["port"])), timeout=60) as client:
        client.sendall(sent)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"\r\nConnection: close" in head
    assert b"Content-Type: application/problem+json" in head
    problem = json.loads(body)
    assert problem["status"] == status and problem["type"] == f"{house.url}/problems/bad-request"


@pytest.mark.parametrize("body", [b"zz\r\n{}\r\n0\r\n\r\n", b"2\r\n{}XX0\r\n\r\n", b"-1\r\n"], ids=repr)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/files"])
def test_broken_chunks_are_the_clients_fault(house, path, body):
    with socket.create_connection(("127.0.0.1", int(house.settings["port"])), timeout=60) as client:
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.key}\r\n"
                       "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + body)
        assert client.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_nobody_says_for_another_where_the_app_lives(house):
    """gunicorn would believe these headers of a client on the same machine, a proxy that passes them on for instance."""
    with socket.create_connection(("127.0.0.1", int(house.settings["port"])), timeout=60) as client:
        client.sendall(b"GET /ui HTTP/1.1\r\nHost: x\r\nSCRIPT_NAME: //evil.example\r\nPATH_INFO: /livez\r\n"
                       b"Connection: close\r\n\r\n")
        head = client.recv(65536)
    assert head.startswith(b"HTTP/1.1 303 ") and b"evil" not in head


def test_a_long_answer_comes_whole(live):
    assert live.get("/bytes/9000001").content == b"x" * 9_000_001


def test_who_does_not_take_his_answer_loses_it(monkeypatch):
    """The worker's limit, on a socket whose other end reads nothing."""
    monkeypatch.setattr(live_worker, "_PIECE", 1000)
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.settimeout(0.2)
        response = live_worker.Response.__new__(live_worker.Response)
        response.sock, response.chunked, response._head = mine, False, b""
        with pytest.raises(TimeoutError):
            response._emit_body(b"x" * 100_000_000)


class TestPace:
    @pytest.fixture
    def ends(self, monkeypatch):
        monkeypatch.setattr(live_reading, "_PATIENCE", 0.3)
        mine, theirs = socket.socketpair()
        with mine, theirs:
            mine.settimeout(60)
            yield mine, theirs

    def test_silence(self, ends):
        reader = PacedReader(ends[0])
        ends[1].sendall(b"abc")
        assert reader.chunk() == b"abc"
        began = time.monotonic()
        with pytest.raises(TooSlow):
            reader.chunk()
        assert 0.2 < time.monotonic() - began < 30
        assert ends[0].gettimeout() == 60

    def test_drops(self, ends):
        reader, stop = PacedReader(ends[0]), threading.Event()

        def drip():
            while not stop.wait(0.05):
                ends[1].sendall(b"x")

        drops = threading.Thread(target=drip)
        drops.start()
        try:
            with pytest.raises(TooSlow):
                for _ in range(100):
                    reader.chunk()
        finally:
            stop.set()
            drops.join()

    def test_a_steady_flow_may_last(self, ends):
        reader, read = PacedReader(ends[0]), 0
        began = time.monotonic()
        while time.monotonic() - began < 1:
            ends[1].sendall(b"x" * 1000)
            read += len(reader.chunk())
        assert read > 1000

    def test_an_end(self, ends):
        ends[1].close()
        ends[0].setblocking(False)
        with pytest.raises(ConnectionError):
            PacedReader(ends[0]).has_request()
