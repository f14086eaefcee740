"""gunicorn's gthread worker, with one thing added: a response may leave its thread and wait in the hub.

A view that answers with a `Parked` body gives its thread back; the hub's event loop keeps the socket until there is
something to send. A held request that was answered goes back to gunicorn's keep-alive loop, a stream is closed. The head
of a response and the first piece of its body also go out in one send.

This relies on parts of gunicorn that are not public, so the version is pinned and `tests/web/test_live_worker.py` holds
what is relied upon.
"""

import resource
import socket
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from typing import Any

from gunicorn.http import wsgi
from gunicorn.util import close_graceful
from gunicorn.workers.gthread import TConn

from jobs.live_reading import Input
from jobs.live_reception import Reception
from jobs.web.hub import Hub
from jobs.web.parking import LIVE, Parked, complete
from jobs.web.seats import SocketSeat

_LOGGED = ("REQUEST_METHOD", "RAW_URI", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL", "REMOTE_ADDR", "HTTP_REFERER",
           "HTTP_USER_AGENT")

_UNACKNOWLEDGED = 60_000
"""Milliseconds for which what a stream has sent may stay unconfirmed."""


class Response(wsgi.Response):
    """Keeps the head back until the first piece of the body."""

    _head = b""

    def send_headers(self) -> None:
        if not self.headers_sent:
            self._head = self.head()
            self.headers_sent = True

    def head(self) -> bytes:
        """Status line and headers."""
        lines = self.default_headers() + [f"{name}: {value}\r\n" for name, value in self.headers]
        return ("".join(lines) + "\r\n").encode("latin-1")

    def _emit_body(self, data: bytes) -> None:
        if self.chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        head, self._head = self._head, b""
        self.sock.sendall(head + data)

    def sendfile(self, respiter: Any) -> bool:
        self.send_headers()
        self._flush_head()
        return super().sendfile(respiter)

    def close(self) -> None:
        self.send_headers()
        self._flush_head()
        super().close()

    def _flush_head(self) -> None:
        head, self._head = self._head, b""
        if head:
            self.sock.sendall(head)


class Departure:
    """What a request's thread hands on when its response comes later. `reusable`: the request was read to its end."""

    def __init__(self, body: Parked, resp: Response, req: Any, environ: dict, started: datetime):
        self.body, self.resp, self.req, self.started = body, resp, req, started
        self.environ = {name: environ.get(name, "") for name in _LOGGED}
        self.reusable = False


class LiveWorker(Reception):
    """Serves views that park. The parked do not count against `worker_connections`; the hub has a cap of its own."""

    # `live_reading` tells how requests are received.

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._hubs: set[Hub] = set()

    def init_process(self) -> None:
        """Before the loop: as many open files as the system allows, since gunicorn dies of the first that it lacks."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS names an infinite limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().init_process()

    # On a request's thread

    def handle_request(self, req: Any, conn: TConn) -> "bool | Departure":
        """As in the parent class, but a parked body is not iterated."""
        environ: dict[str, Any] = {}
        resp = None
        try:
            self.cfg.pre_request(self, req)
            started = datetime.now()
            resp, environ = wsgi.create(req, conn.sock, conn.client, conn.server, self.cfg, response_class=Response)
            environ["wsgi.multithread"] = True
            environ[LIVE] = not self.cfg.is_ssl
            environ["wsgi.input"] = Input(environ["wsgi.input"])
            self._count_request()
            if not self._may_keep_alive():
                resp.force_close()
            body = self.wsgi(environ, resp.start_response)
            if isinstance(body, Parked) and environ[LIVE]:
                return Departure(body, resp, req, environ, started)
            try:
                if isinstance(body, environ["wsgi.file_wrapper"]):
                    resp.write_file(body)
                else:
                    for item in body:
                        resp.write(item)
                resp.close()
            finally:
                self.log.access(resp, req, environ, datetime.now() - started)
                if hasattr(body, "close"):
                    body.close()
            return not resp.should_close()
        except OSError:
            raise
        except (Exception, SystemExit):
            if resp and resp.headers_sent:  # a second response on the same socket would corrupt the first
                self.log.exception("Error handling request")
                close_graceful(conn.sock)
                raise StopIteration() from None
            raise
        finally:
            try:
                self.cfg.post_request(self, req, environ, resp)
            except Exception:
                self.log.exception("Exception in post_request hook")

    def _count_request(self) -> None:
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            self.log.info("Autorestarting worker after current request.")
            self.alive = False

    def _may_keep_alive(self) -> bool:
        return bool(self.alive and self.cfg.keepalive and len(self.keepalived_conns) < self.max_keepalived)

    def _keepalive_after(self, conn: TConn, outcome: "bool | Departure") -> "bool | Departure":
        if not isinstance(outcome, Departure):
            return super()._keepalive_after(conn, outcome)
        outcome.reusable = super()._keepalive_after(conn, True)
        return outcome

    # On the main thread

    def finish_request(self, conn: TConn, fs: Future) -> None:
        departure = None if fs.cancelled() or fs.exception() else fs.result()
        if isinstance(departure, Departure):
            self._park(conn, departure)
        else:
            super().finish_request(conn, fs)

    def _park(self, conn: TConn, departure: Departure) -> None:
        conn.sock.setblocking(False)
        self.worker_connections += 1  # it stays among `nr_conns`, so that a stopping worker waits for it
        self._hubs.add(departure.body.hub)
        if departure.body.streaming:
            seat = self._seat_stream(conn, departure)
        else:
            seat = self._seat_poll(conn, departure)
        departure.body.hub.join(seat)
        if not self.alive:
            departure.body.hub.leave()

    def _seat_stream(self, conn: TConn, departure: Departure) -> SocketSeat:
        resp = departure.resp
        resp.force_close()
        with suppress(AttributeError, OSError):  # on Linux over TCP: notice a client whose network is gone
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED)
        self.log.access(resp, departure.req, departure.environ, datetime.now() - departure.started)
        conn.parser = None  # nothing more will be read; it holds the whole request
        return SocketSeat(departure.body.watcher, conn.sock, lambda keep, early: self._call(self._unpark, conn, False),
                          prefix=resp.head(), chunked=resp.chunked)

    def _seat_poll(self, conn: TConn, departure: Departure) -> SocketSeat:
        def encode(answer: Any) -> tuple[bytes, bool]:
            resp = Response(departure.req, conn.sock, self.cfg)
            if not (departure.reusable and self._may_keep_alive()) or departure.resp.must_close:
                resp.force_close()
            status, headers, body = complete(answer, departure.resp.headers)
            resp.start_response(status, headers)
            resp.sent = 0 if resp._omits_body else len(body)
            self.log.access(resp, departure.req, departure.environ, datetime.now() - departure.started)
            return resp.head() + (b"" if resp._omits_body else body), not resp.should_close()

        def release(keep: bool, early: bytes) -> None:
            if keep and early:
                conn.parser.unreader.unread(conn.parser.unreader.take_buffered() + early)
            self._call(self._unpark, conn, keep)

        return SocketSeat(departure.body.watcher, conn.sock, release, encode=encode)

    def _unpark(self, conn: TConn, keep: bool) -> None:
        self.worker_connections -= 1
        if keep:
            done: Future = Future()
            done.set_result(True)
            super().finish_request(conn, done)
        else:
            self.nr_conns -= 1

    def _call(self, action: Callable[..., None], *arguments: Any) -> None:
        """Have the main thread do something; from the hub's thread."""
        self.method_queue.defer(action, *arguments)

    def _cap_keepalive(self, deadline: float) -> None:
        """The one thing that `run` does once when the worker begins to stop, whatever the reason: the parked go too."""
        super()._cap_keepalive(deadline)
        for hub in self._hubs:
            hub.leave()
