"""How connections come and go: gunicorn's gthread worker, whose main thread waits for nobody.

A connection has no thread before its request is here (`live_reading`), and none when it ends.
"""

import selectors
import socket
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn.http import errors
from gunicorn.util import write_nonblock
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from jobs.clock import monotonic
from jobs.errors import Problem
from jobs.live_reading import HeadTooLarge, PacedReader
from jobs.web import problems

_REFUSED = {  # the first that fits
    errors.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG, errors.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    HeadTooLarge: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, errors.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
    errors.ExpectationFailed: HTTPStatus.EXPECTATION_FAILED, errors.ConfigurationProblem: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.ParseException: HTTPStatus.BAD_REQUEST}

_LINGER = 2.0              # seconds that a client gets to close its end
_MOST_DRAINED = 64 * 1024  # bytes


class Reception(ThreadWorker):
    """Everything here runs on the main thread, but for `handle_error`."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._parting: dict[TConn, int] = {}  # connections that end → bytes that are still taken from them

    def enqueue_req(self, conn: TConn) -> None:
        """Give the connection a thread if its request is here; else it waits in the poller for as long as an idle one may."""
        if self.cfg.is_ssl:
            super().enqueue_req(conn)
            return
        try:
            if not conn.initialized:
                conn.init()
                conn.parser.unreader = PacedReader(conn.sock)
            conn.sock.setblocking(False)
            is_here = conn.parser.unreader.has_request()
        except HeadTooLarge as error:
            self.handle_error(None, conn.sock, conn.client, error)
            self._part(conn)
        except OSError:
            self._part(conn)
        else:
            if is_here:
                super().enqueue_req(conn)
            else:
                self._await_request(conn)

    def on_pending_socket_readable(self, conn: TConn, client: socket.socket) -> None:
        """More of a request has come. Until all of it has, the connection keeps its place, and so its time limit."""
        with suppress(HeadTooLarge, OSError):  # `enqueue_req` meets it again
            if not self.cfg.is_ssl and not conn.parser.unreader.has_request():
                return
        super().on_pending_socket_readable(conn, client)

    def _await_request(self, conn: TConn) -> None:
        conn.timeout = monotonic() + (self.cfg.keepalive if self.alive else STOP_KEEPALIVE_LINGER)
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    # When a connection ends

    def _part(self, conn: TConn) -> None:
        """Close the connection so that the end of the answer is not lost (RFC 9112, section 9.6): whether the client has
        taken it is seen in the poller, since a client that holds on to its end would hold up everybody."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._drain, conn))
        except (OSError, ValueError):  # it is gone already
            self._end(conn)
        else:
            conn.timeout = monotonic() + _LINGER
            self._parting[conn] = _MOST_DRAINED

    def _drain(self, conn: TConn, client: socket.socket) -> None:
        try:
            piece = conn.sock.recv(_MOST_DRAINED)
        except OSError:
            piece = b""
        self._parting[conn] -= len(piece)
        if not piece or self._parting[conn] <= 0:
            self._end(conn)

    def _end(self, conn: TConn) -> None:
        if self._parting.pop(conn, None) is not None:
            self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Called about once a second."""
        super().murder_pending()
        now = monotonic()
        for conn in [conn for conn in self._parting if conn.timeout <= now]:
            self._end(conn)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """What the parser refuses is answered by a problem document, like everything else."""
        status = next((status for kind, status in _REFUSED.items() if isinstance(exc, kind)), 500)
        if status == 500:
            self.log.error("Error handling request %s", getattr(req, "uri", ""), exc_info=exc)
            problem = Problem("internal-error")
        else:
            self.log.warning("Invalid request from %s: %s", (addr or ("a socket",))[0], exc)
            problem = Problem("bad-request", f"{HTTPStatus(status).phrase}.", status=status)
        answer = problems.document(problem.members(self.wsgi.extensions["accepted"].settings.base_url))
        head = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        with suppress(OSError):
            write_nonblock(client, f"HTTP/1.1 {answer.status}\r\nConnection: close\r\n{head}\r\n".encode("latin-1") + answer.get_data())

    def finish_request(self, conn: TConn, fs: Future) -> None:
        """As in the parent class, but a connection that ends is not waited for."""
        if fs.cancelled() or fs.exception() or not fs.result():
            self._part(conn)
        else:
            super().finish_request(conn, fs)

    def _cap_keepalive(self, deadline: float) -> None:
        """The worker begins to stop: those who have not said what they want get no longer than those who want nothing."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)
