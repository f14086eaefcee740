"""Answering with a stored file: ranges and preconditions (RFC 9110, sections 13 and 14), and the kernel to do the copying."""

import hashlib
import io
import re
from typing import BinaryIO
from urllib.parse import quote

from flask import Response, request
from werkzeug.http import parse_date, parse_etags
from werkzeug.wsgi import FileWrapper

from jobs import clock
from jobs.artifacts.store import BadKey, NotPlain, Store
from jobs.errors import Problem
from jobs.web import conditional
from jobs.web.problems import not_found

_PIECE = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def send(store: Store, key: str, *, name: str, media_type: str, created_at: str, inline: bool = False) -> Response:
    """200, 206 or 304 with a stored file. Problems: 404 when there is none, 412, 416.

    Without `inline` a browser saves the file; with or without it, it runs no script of it.
    """
    try:
        size = store.size(key)
    except (FileNotFoundError, BadKey, NotPlain, IsADirectoryError):
        raise not_found() from None
    tag = f'"{hashlib.sha256(key.encode()).hexdigest()[:24]}"'  # strong: what a key holds never changes
    headers = {
        "ETag": tag, "Last-Modified": conditional.http_date(clock.parse(created_at)), "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie", "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff", "Content-Disposition": disposition("inline" if inline else "attachment", name)}
    if _is_fresh(tag, created_at):
        return Response(status=304, headers=headers)
    part = _part(size, tag, created_at)
    start, stop = part or (0, size)
    response = Response(status=206 if part else 200, content_type=media_type)
    response.headers.update(headers)
    if part:
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    response.headers["Content-Length"] = str(stop - start)
    if request.method != "HEAD":
        response.response = _body(store.open(key, start), stop - start)
        response.direct_passthrough = True
    return response


def disposition(kind: str, name: str) -> str:
    """Content-Disposition (RFC 6266): a plain name for all, and the real one as RFC 8187 has it where that differs."""
    plain = "".join(each if " " <= each <= "~" and each not in '"\\%' else "_" for each in name)
    return f'{kind}; filename="{plain}"' + (f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else "")


def _is_fresh(tag: str, created_at: str) -> bool:
    """Whether the client has these bytes. Problem 412 when it demands others (RFC 9110, section 13.2.2, in this order)."""
    bare, modified = tag.strip('"'), clock.parse(created_at).replace(microsecond=0)
    if "If-Match" in request.headers:
        if not parse_etags(request.headers["If-Match"]).contains(bare):
            raise Problem("precondition-failed", "The file is another one.")
    elif (date := parse_date(request.headers.get("If-Unmodified-Since"))) and modified > date:
        raise Problem("precondition-failed", "The file is a later one.")
    if "If-None-Match" in request.headers:
        return conditional.matches(request.headers["If-None-Match"], tag)
    date = parse_date(request.headers.get("If-Modified-Since"))
    return date is not None and modified <= date


def _part(size: int, tag: str, created_at: str) -> tuple[int, int] | None:
    """The half-open range of bytes that was asked for, or None: the whole. Problem 416 when it lies outside."""
    if request.method != "GET" or "Range" not in request.headers:
        return None
    condition = request.headers.get("If-Range", tag)
    if condition != tag and parse_date(condition) != clock.parse(created_at).replace(microsecond=0):
        return None
    wanted = _RANGE.fullmatch(request.headers["Range"])
    first, last = wanted.groups() if wanted else ("", "")
    if not (first or last) or (first and last and int(last) < int(first)):
        return None  # nonsense is passed over; several ranges, too, are answered with the whole, as a server may
    start = int(first) if first else max(size - int(last), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if start >= size:
        raise Problem("range-not-satisfiable", f"The file has {size} bytes.", headers={"Content-Range": f"bytes */{size}"})
    return start, stop


def _body(file: BinaryIO, length: int):
    """An iterable over the next `length` bytes; the server's own wrapper, where it has one, lets the kernel copy them."""
    return request.environ.get("wsgi.file_wrapper", FileWrapper)(_Window(file, length), _PIECE)


class _Window(io.RawIOBase):
    """The part of an open file that is sent: servers read it, or take its descriptor and position."""

    mode = "rb"

    def __init__(self, file: BinaryIO, length: int):
        self._file = file
        self._left = length

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def close(self) -> None:
        self._file.close()
        super().close()
