"""Receiving a file: streamed to disk, hashed on the way, capped; it appears whole or not at all."""

import hashlib
import io
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from jobs import clock
from jobs.artifacts import names, publish, records
from jobs.artifacts.store import storage_errors
from jobs.core.access import Caller
from jobs.db import Row
from jobs.errors import Problem
from jobs.web import auth
from jobs.web.queries import known
from jobs.web.site import base_url, site
from jobs.web.submissions import compact

blueprint = Blueprint("uploads", __name__)
_PIECE = 256 * 1024
_FRAMING = 1 << 20      # bytes that a form may add to its file
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?charset=[\w-]+)?", re.ASCII)
_UNSAID = ("", "application/octet-stream", "application/x-www-form-urlencoded")  # the last is what curl says of any body


@blueprint.post("/v1/files")
def post_file() -> Response:
    """Keep a file: the raw body, or the one file of a multipart form. 201 and where it is."""
    caller = auth.submitter()
    known("name")
    row = receive(caller)
    response = Response(compact(records.render(row)), 201, content_type="application/json")
    response.headers.update({"Location": f"{base_url()}/v1/artifacts/{row.id}", "Cache-Control": "no-store"})
    return response


def receive(caller: Caller) -> Row:
    """The request's body as a new upload of the caller: its artifact."""
    settings = site().settings
    with _incoming() as incoming, patience(settings.keepalive * 4):
        _receive(incoming)
        return publish.upload(
            site().db, site().store, settings, incoming.path, owner=caller.owner, name=incoming.name,
            media_type=_media_type(incoming), size=incoming.size, sha256=incoming.sha256,
            expires_at=clock.after(settings.upload_retention))


class Incoming(io.RawIOBase):
    """The file that is being received. Problem 413 past the limit, StorageFull when the disk is."""

    def __init__(self, path: Path, limit: int):
        self.path = path
        self.name = ""
        self.media_type = ""
        self.size = 0
        self._limit = limit
        self._sha256 = hashlib.sha256()
        with storage_errors():
            self._file = path.open("xb")

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def write(self, piece: bytes) -> int:
        self.size += len(piece)
        if self.size > self._limit:
            raise _too_large(self._limit)
        self._sha256.update(piece)
        with storage_errors():
            return self._file.write(piece)

    def flush(self) -> None:
        with storage_errors():
            self._file.flush()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)  # the form parser rewinds a file that is complete

    def discard(self) -> None:
        """Close it, and remove what has not been moved away."""
        try:
            self._file.close()
        except OSError:
            pass  # a full disk refuses the last bytes; they are not wanted any more
        self.path.unlink(missing_ok=True)


@contextmanager
def _incoming() -> Iterator[Incoming]:
    incoming = Incoming(site().store.scratch / f"upload-{secrets.token_hex(8)}", site().settings.max_upload)
    try:
        yield incoming
    finally:
        incoming.discard()


def _receive(incoming: Incoming) -> None:
    """Fill the file from the request's body."""
    multipart = request.mimetype == "multipart/form-data"
    is_chunked = "Transfer-Encoding" in request.headers
    if request.content_length is None and not is_chunked or request.content_length == 0 and multipart:  # RFC 9112, section 6.3
        raise _nothing()
    limit = site().settings.max_upload
    if (request.content_length or 0) > limit + (_FRAMING if multipart else 0):
        raise _too_large(limit)
    body = _Body()
    if multipart:
        said = _receive_form(incoming, body)
    else:
        incoming.media_type = request.headers.get("Content-Type", "")
        while piece := body.read(_PIECE):
            incoming.write(piece)
        said = parse_options_header(request.headers.get("Content-Disposition"))[1].get("filename", "")
    incoming.flush()
    named = request.args.get("name") or said
    if not (incoming.size or multipart or named or request.mimetype not in _UNSAID):
        raise _nothing()
    incoming.name = names.clean(named)


def _receive_form(incoming: Incoming, body: "_Body") -> str:
    """Fill the file from the one file of a multipart form (RFC 7578); the name that it bears there."""
    found = []

    def open_part(total_content_length, content_type, filename, content_length=None) -> Incoming:
        if found:
            raise Problem("bad-request", "Send one file per request.")
        found.append(filename or "")
        incoming.media_type = content_type or ""
        return incoming

    # The parser reads 64 KiB at a time and counts what is left of the piece before: its limit must hold two pieces.
    parser = FormDataParser(stream_factory=open_part, max_form_memory_size=4 * _FRAMING, max_form_parts=20, silent=False)
    try:
        parser.parse(body, request.mimetype, request.content_length, request.mimetype_params)
    except ValueError as error:
        raise Problem("bad-request", f"The form cannot be read: {error}") from None
    if not found or not (found[0] or incoming.size):      # a browser sends a field without a choice like that
        raise Problem("bad-request", "The form has no file. With curl: -F file=@name")
    return found[0]


class _Body(io.RawIOBase):
    """The request's body; whatever goes wrong while it is read is the connection's fault, told apart from the disk's."""

    def __init__(self):
        self._left = request.content_length  # None: chunked

    def read(self, size: int = -1) -> bytes:
        try:
            piece = request.stream.read(size)
        except HTTPException:
            raise
        except Exception as error:  # each server has errors of its own for this
            raise _cut() from error
        if self._left is not None:
            self._left -= len(piece)
            if not piece and self._left > 0:  # gunicorn takes the end of the connection for the end of the body
                raise _cut()
        return piece


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """A client that falls silent in the middle of its upload holds a thread for this long and no longer."""
    connection = request.environ.get("gunicorn.socket")
    if connection is None:
        yield
        return
    before = connection.gettimeout()
    connection.settimeout(seconds)
    try:
        yield
    finally:
        connection.settimeout(before)


def _media_type(incoming: Incoming) -> str:
    """What the client says, unless it says nothing or nonsense; then what the name tells."""
    said = incoming.media_type.strip()
    said = said if _MEDIA_TYPE.fullmatch(said) else ""
    return publish.media_type_of(incoming.name) if said in _UNSAID else said


def _nothing() -> Problem:
    return Problem("bad-request", "There is no file: send its bytes as the body, or as a multipart form. "
                                  "To keep an empty file, say its name: ?name=empty.txt")


def _cut() -> Problem:
    return Problem("bad-request", "The connection ended before the body did; nothing was kept.")


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"A file may have at most {limit} bytes.")
