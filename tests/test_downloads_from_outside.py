"""Downloads through the guard, from real servers that redirect, lie, break off and change."""

import hashlib

import pytest

from jobs.downloads import Fetched, download
from jobs.errors import Problem, Retry
from jobs.targets import Guard, retry_after
from tests.outbound import http_server, reply


def site(handler):
    """A small site: files, redirects, faults."""
    path = handler.path.partition("?")[0]
    if path.startswith("/hop/"):
        left = int(path.rpartition("/")[2])
        reply(handler, 302, Location=f"/hop/{left - 1}" if left else "/file.bin")
    elif path == "/inside":
        reply(handler, 307, Location=handler.path.partition("?")[2])
    elif path == "/raw":
        handler.wfile.write("HTTP/1.1 302 Found\r\nLocation: /straße und mehr.bin\r\n\r\n".encode())
        handler.close_connection = True
    elif path == "/named":
        reply(handler, body=b"abc", Content_Type="Text/CSV; x=y",
              Content_Disposition="attachment; filename*=UTF-8''..%2F..%2Fna%C3%AFve.csv")
    elif path == "/chunked":
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        handler.wfile.write(b"ffff\r\n" + b"z" * 0xffff + b"\r\n0\r\n\r\n")
        handler.close_connection = True
    elif path == "/short":
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf")
        handler.close_connection = True
    elif path.startswith("/status/"):
        reply(handler, int(path.rpartition("/")[2]), Retry_After="7")
    else:
        reply(handler, body=b"0123456789" * 10000, Content_Type="video/mp4")


@pytest.fixture(scope="module")
def source():
    with http_server(site) as port:
        yield f"http://127.0.0.1:{port}"


def fetch(source, path, to, max_bytes=10**6, **options):
    port = source.rpartition(":")[2]
    return download(Guard([f"127.0.0.1:{port}"]), source + path, to, max_bytes=max_bytes, timeout=60, **options)


def test_a_download_arrives_whole_with_its_digest_type_and_name(source, tmp_path):
    progress = []
    got = fetch(source, "/hop/4?x", tmp_path / "a", on_progress=lambda done, total: progress.append((done, total)))
    body = b"0123456789" * 10000
    assert (tmp_path / "a").read_bytes() == body
    assert got == Fetched(100000, "video/mp4", "file.bin", hashlib.sha256(body).hexdigest())
    assert progress[-1] == (100000, 100000)
    assert fetch(source, "/chunked", tmp_path / "b").size == 0xffff


def test_a_given_name_is_stripped_of_its_path(source, tmp_path):
    got = fetch(source, "/named", tmp_path / "a")
    assert (got.name, got.media_type) == ("naïve.csv", "text/csv")
    assert fetch(source, "/", tmp_path / "a").name == "download"
    assert fetch(source, "/raw", tmp_path / "a").name == "straße und mehr.bin"


@pytest.mark.parametrize("inside", ["http://127.0.0.1:1/", "http://169.254.169.254/", "http://[::1]/", "//10.0.0.1/",
                                    "file:///etc/passwd", "http://["])
def test_a_redirect_is_checked_like_the_first_address(source, tmp_path, inside):
    with pytest.raises(Problem) as refused:
        fetch(source, f"/inside?{inside}", tmp_path / "a")
    assert refused.value.slug in ("target-forbidden", "source-unavailable")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("path", ["/hop/5", "/status/404", "/status/206"])
def test_what_will_not_get_better_is_a_problem(source, tmp_path, path):
    with pytest.raises(Problem) as fault:
        fetch(source, path, tmp_path / "a")
    assert fault.value.slug == "source-unavailable" and not (tmp_path / "a").exists()


def test_what_may_get_better_is_tried_again_later(source, tmp_path):
    with pytest.raises(Retry) as later:
        fetch(source, "/status/503", tmp_path / "a")
    assert later.value.after == 7
    with pytest.raises(Retry):
        fetch(source, "/short", tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("path", ["/file", "/chunked"])
def test_a_download_that_is_too_large_is_stopped(source, tmp_path, path):
    with pytest.raises(Problem) as fault:
        fetch(source, path, tmp_path / "a", max_bytes=5000)
    assert fault.value.slug == "too-large" and not (tmp_path / "a").exists()


def test_a_download_ends_when_its_progress_call_says_so(source, tmp_path):
    class Cancelled(BaseException):
        pass

    def stop(done, total):
        raise Cancelled

    with pytest.raises(Cancelled):
        fetch(source, "/file", tmp_path / "a", on_progress=stop)
    assert not (tmp_path / "a").exists()


def test_retry_after_is_read_as_seconds_or_as_a_date():
    assert retry_after({"Retry-After": "120"}) == 120
    assert retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert 0 < retry_after({"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"})
    assert [retry_after({"Retry-After": text}) for text in ("soon", "-1", "0.5", "")] == [None] * 4
    assert retry_after({}) is None


# Going on from what came


class Flaky:
    """A source that breaks off half-way as often as it is told, and notes what it was asked for."""

    def __init__(self, body=b"0123456789" * 50_000, etag='"v1"', breaks=1, ranges=True):
        self.body, self.etag, self.breaks, self.ranges, self.asked = body, etag, breaks, ranges, []

    def __call__(self, handler):
        wanted, condition = handler.headers.get("Range"), handler.headers.get("If-Range")
        self.asked.append((wanted, condition))
        begin = int(wanted[6:-1]) if wanted and self.ranges and condition == self.etag else 0
        part = self.body[begin:]
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(self.body) - 1}/{len(self.body)}")
        if self.etag:
            handler.send_header("ETag", self.etag)
        handler.send_header("Content-Length", str(len(part)))
        handler.end_headers()
        self.breaks -= 1
        handler.wfile.write(part[:len(part) // 2] if self.breaks >= 0 else part)
        handler.close_connection = True


def broken_then_whole(flaky, to, between=lambda: None):
    """The bytes after a download that broke off and another one; the second's report."""
    with http_server(flaky) as port:
        with pytest.raises(Retry):
            fetch(f"http://127.0.0.1:{port}", "/big", to, resume=True)
        between()
        told = []
        got = fetch(f"http://127.0.0.1:{port}", "/big", to, resume=True, on_progress=lambda done, total: told.append((done, total)))
    assert (got.size, got.sha256) == (len(flaky.body), hashlib.sha256(flaky.body).hexdigest())
    assert to.read_bytes() == flaky.body and told[-1] == (got.size, got.size)
    assert [path.name for path in to.parent.iterdir()] == [to.name]


def test_a_broken_download_goes_on_where_it_was(tmp_path):
    flaky = Flaky()
    broken_then_whole(flaky, tmp_path / "a")
    begin = int(flaky.asked[1][0][6:-1])
    assert flaky.asked == [(None, None), (f"bytes={begin}-", '"v1"')] and 0 < begin <= 250_000


def test_a_source_that_has_changed_is_taken_anew(tmp_path):
    flaky = Flaky()

    def change():
        flaky.body, flaky.etag = b"another" * 70_000, '"v2"'

    broken_then_whole(flaky, tmp_path / "a", change)
    assert flaky.asked[1][1] == '"v1"'


def test_a_source_that_knows_no_ranges_is_taken_anew(tmp_path):
    broken_then_whole(Flaky(ranges=False), tmp_path / "a")


@pytest.mark.parametrize("etag", ['W/"v1"', ""])
def test_without_a_strong_version_nothing_is_kept(tmp_path, etag):
    flaky = Flaky(etag=etag)
    broken_then_whole(flaky, tmp_path / "a")
    assert flaky.asked == [(None, None), (None, None)]


def test_a_part_that_the_source_no_longer_has_is_taken_anew(tmp_path):
    """It answers 416, or another part than the one that was asked for."""
    for odd in ("416", "another part"):
        flaky, folder = Flaky(), tmp_path / odd
        folder.mkdir()

        def answer(handler, flaky=flaky, odd=odd):
            if not handler.headers.get("Range"):
                return flaky(handler)
            flaky.asked.append("odd")
            return reply(handler, 416) if odd == "416" else reply(handler, 206, b"x", Content_Range="bytes 7-7/9")

        with http_server(answer) as port:
            with pytest.raises(Retry):
                fetch(f"http://127.0.0.1:{port}", "/big", folder / "a", resume=True)
            assert fetch(f"http://127.0.0.1:{port}", "/big", folder / "a", resume=True).size == len(flaky.body)
        assert flaky.asked == [(None, None), "odd", (None, None)]
