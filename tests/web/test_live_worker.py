"""The worker class: what it relies on in gunicorn, and that parking costs nothing but a socket."""

import hashlib
import http.client
import inspect
import signal
import threading
import time

import gunicorn
import pytest
from gunicorn.http import wsgi
from gunicorn.http.unreader import SocketUnreader, Unreader
from gunicorn.workers import gthread

from tests.stack import wait_for

# sha256 of the source of what LiveWorker overrides or leans on. A difference means: read the new code, then adapt.
RELIED_UPON = {
    gthread.ThreadWorker.handle: "ca85c9be",
    gthread.ThreadWorker.handle_request: "6d0de5b9",
    gthread.ThreadWorker._keepalive_after: "4ebdbbc8",
    gthread.ThreadWorker.finish_request: "616e7bb1",
    gthread.ThreadWorker._cap_keepalive: "745c8ac3",
    gthread.ThreadWorker.run: "f92c7394",
    gthread.ThreadWorker.accept: "f8dcead3",
    gthread.ThreadWorker.enqueue_req: "c9f42895",
    gthread.ThreadWorker.on_pending_socket_readable: "2475f708",
    gthread.ThreadWorker.on_client_socket_readable: "aead1a3e",
    gthread.ThreadWorker.murder_pending: "7bf11f46",
    gthread.TConn.init: "5ff3d4ba",
    gthread.TConn.close: "6d1c334e",
    SocketUnreader.chunk: "9f625322",
    gthread.PollableMethodQueue.defer: "4d722900",
    wsgi.Response.write: "a13659ff",
    wsgi.Response.send_headers: "7aff3b7d",
    wsgi.Response.sendfile: "417ea65f",
    wsgi.Response.close: "1e78fc77",
    wsgi.Response.default_headers: "cb490cea",
    wsgi.create: "2c35d4a2",
    Unreader.take_buffered: "89cef5e6",
    Unreader.unread: "8e325744",
}


def digest(function):
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:8]


def test_gunicorn_is_the_one_that_was_read():
    assert gunicorn.__version__ == "27.0.1"


@pytest.mark.parametrize("function", RELIED_UPON, ids=lambda function: function.__qualname__)
def test_private_parts_are_as_they_were(function):
    assert digest(function) == RELIED_UPON[function]


def test_parking_adds_no_thread_no_connection_and_no_query(live):
    job = live.running()
    first = live.events(f"/jobs/{job.id}/events")
    first.next()  # whatever starts lazily has started
    first.close()
    wait_for(lambda: live.facts()["seats"] == 0)

    def redis_clients():
        import redis
        return int(redis.Redis(unix_socket_path=f"{live.folder}/redis.sock").info("clients")["connected_clients"])

    def reads_a_second():
        before, began = live.facts()["reads"], time.monotonic()
        threading.Event().wait(2)
        return (live.facts()["reads"] - before) / (time.monotonic() - began)

    before, connected = live.facts(), redis_clients()
    clients = []
    for path in (f"/jobs/{job.id}/events", "/events", f"/jobs/{job.id}?wait=50", "/changes?wait=50"):
        clients += [live.open(path) for _ in range(50)]
    wait_for(lambda: live.facts()["seats"] == 200)
    threads = live.facts()["threads"]
    assert threads <= before["threads"] + live.settings.web_threads  # the pool fills up once, whatever is parked
    assert redis_clients() == connected
    assert reads_a_second() <= 4  # the feed and the keys, once a second, for all 200 together
    assert live.facts()["threads"] == threads

    began = time.monotonic()
    for client in clients:
        client.close()
    wait_for(lambda: live.facts()["seats"] == 0)
    assert time.monotonic() - began < 25  # half of what the polls would have waited
    live.finish(job)


def test_kept_alive_after_a_long_poll(live):
    job = live.job()
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=60)
    connection.connect()
    sock = connection.sock
    for _ in range(3):
        connection.request("GET", f"/jobs/{job.id}?wait=0.2", headers={"Authorization": f"Bearer {live.keys['submit']}"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["Connection"] == "keep-alive"
        assert answer.read()
        assert connection.sock is sock
    connection.close()


def test_a_request_sent_behind_a_held_one_is_answered_after_it(live):
    job = live.job()
    client = live.open(f"/jobs/{job.id}?wait=0.3")
    wait_for(lambda: live.facts()["seats"] == 1)
    client.sendall(b"GET /facts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    received = b""
    while data := client.recv(65536):
        received += data
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b'"status":"queued"') < received.index(b'"seats"')


def test_http_1_0_gets_an_unchunked_stream(live):
    job = live.running()
    client = live.open(f"/jobs/{job.id}/events", version="1.0")
    wait_for(lambda: live.facts()["seats"] == 1)
    live.finish(job)
    received = b""
    while data := client.recv(65536):
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert body.startswith(b"retry: 3000\nid: ")
    assert body.count(b"event: done") == 1 and body.endswith(b"\n\n")


def test_headers_of_the_hooks_reach_the_later_answer(live):
    answer = live.get(f"/jobs/{live.job().id}?wait=0.1", headers={"X-Request-Id": "r-1"})
    assert answer.headers["X-Request-Id"] == "r-1"
    assert answer.headers["Vary"] == "Prefer, Origin"
    assert answer.headers["Content-Type"] == "application/json"
    assert int(answer.headers["Content-Length"]) == len(answer.content)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopping_server_ends_streams_and_answers_polls(own_live, how):
    live = own_live()
    job = live.running()
    streams = [live.events(f"/jobs/{job.id}/events") for _ in range(20)]
    for stream in streams:
        assert stream.next()[0] == "progress"
    answers = []
    polls = [threading.Thread(target=lambda: answers.append(live.get(f"/jobs/{job.id}?wait=50"))) for _ in range(5)]
    for poll in polls:
        poll.start()
    wait_for(lambda: live.facts()["seats"] == 25)
    worker = live.worker_pid()
    began = time.monotonic()
    live.web.send_signal(how)
    assert all(stream.rest() == [] for stream in streams)  # a whole end, not a cut: the last chunk has come
    for poll in polls:
        poll.join()
    assert time.monotonic() - began < 25
    assert [(answer.status_code, answer.json()["status"], answer.headers["Connection"]) for answer in answers] \
        == [(200, "running", "close")] * 5
    wait_for(lambda: live.web.poll() == 0 if how == signal.SIGTERM else live.worker_pid() != worker)


def test_a_client_that_reads_nothing_does_not_hold_up_the_end(own_live):
    live = own_live()
    jobs = [live.running(payload="{}") for _ in range(30)]
    client = live.open("/events", receive_buffer=4096)
    wait_for(lambda: live.facts()["seats"] == 1)
    for job in jobs:
        live.finish(job, '"' + "x" * 40_000 + '"')
    began = time.monotonic()
    live.web.terminate()
    assert live.web.wait(60) == 0
    assert time.monotonic() - began < 20
