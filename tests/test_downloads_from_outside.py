"""Downloads through the guard, from real servers that redirect, lie, break off and change."""

import gzip
import hashlib
import threading
from urllib.parse import quote, unquote

import pytest

from jobs.downloads import LONGEST_WAIT, Fetched, download
from jobs.errors import Problem, Retry
from jobs.targets import Guard, retry_after
from jobs.partials import waiting
from tests.outbound import http_server, reply


PACKED = b"text that is packed well. " * 20_000
STOPPED = threading.Event()     # set at the end of the module


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
    elif path == "/vast":
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n")
        handler.rfile.read(1)       # until the other side has seen enough
    elif path == "/drip":
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not handler.wfile.closed and not STOPPED.wait(0.02):
            handler.wfile.write(b".")
    elif path == "/years":
        reply(handler, 503, Retry_After="999999999")
    elif path.startswith("/coded/"):
        packed = gzip.compress(PACKED) + gzip.compress(b"and more")
        reply(handler, body=packed[:-9] if path.endswith("cut") else packed, Content_Encoding="br" if path.endswith("br") else "gzip")
    elif path == "/odd":
        _, content_type, disposition = handler.path.encode().decode("unicode-escape").split("?")
        handler.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: 1\r\n"
                            f"Content-Disposition: attachment; {unquote(disposition)}\r\n\r\na".encode())
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
        STOPPED.set()


def fetch(source, path, to, max_bytes=10**6, timeout=60, **options):
    port = source.rpartition(":")[2]
    return download(Guard([f"127.0.0.1:{port}"]), source + path, to, max_bytes=max_bytes, timeout=timeout, **options)


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


@pytest.mark.parametrize(("content_type", "disposition", "media_type", "name"), [
    ("text/plain", 'filename="größe.pdf"', "text/plain", "größe.pdf"),      # UTF-8 as it is, which many servers send
    ("a b/<c>", "filename=a.txt", None, "a.txt"), ("text/x%0d%0a y", "filename*=idna''%ff%00x", None, "odd"),
    ("Image/SVG+xml;charset=x", "filename*=undefined''x", "image/svg+xml", "odd")])
def test_odd_words_of_a_source_do_no_harm(source, tmp_path, content_type, disposition, media_type, name):
    got = fetch(source, f"/odd?{quote(content_type, safe='/+;=%')}?{quote(disposition)}", tmp_path / "a")
    assert (got.media_type, got.name) == (media_type, name)


def test_what_a_source_packs_unasked_is_unpacked_to_its_end(source, tmp_path):
    got = fetch(source, "/coded/page.html", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == PACKED + b"and more" and got.size == len(PACKED) + 8
    with pytest.raises(Retry):
        fetch(source, "/coded/cut", tmp_path / "a")
    with pytest.raises(Problem, match="coded as br"):
        fetch(source, "/coded/br", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_file_that_is_packed_itself_stays_as_it_is(source, tmp_path):
    """Some servers call the gzip of film.tar.gz a coding; its publisher's digest is that of the file."""
    fetch(source, "/coded/film.tar.gz", tmp_path / "a")
    assert gzip.decompress((tmp_path / "a").read_bytes()) == PACKED + b"and more"


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
    assert (later.value.problem.slug, later.value.problem.detail) == ("source-unavailable", "The source answered 503.")
    with pytest.raises(Retry) as later:
        fetch(source, "/years", tmp_path / "a")
    assert later.value.after == LONGEST_WAIT


def test_a_source_that_never_ends_is_left_when_the_time_is_up(source, tmp_path):
    with pytest.raises(Retry):
        fetch(source, "/drip", tmp_path / "a", timeout=0.5)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("path", ["/file", "/chunked", "/vast", "/coded/x"])
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


def test_what_came_of_another_version_is_never_joined(tmp_path):
    """It heeds Range and ignores If-Range, as simple servers do; its ETag tells that the file has changed."""
    flaky, changed = Flaky(), b"another" * 80_000

    def answer(handler):
        if not flaky.asked:
            return flaky(handler)
        begin = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
        flaky.asked.append(begin)
        return reply(handler, 206 if begin else 200, changed[begin:], ETag='"v2"',
                     Content_Range=f"bytes {begin}-{len(changed) - 1}/{len(changed)}")

    with http_server(answer) as port:
        with pytest.raises(Retry):
            fetch(f"http://127.0.0.1:{port}", "/big", tmp_path / "a", resume=True)
        assert fetch(f"http://127.0.0.1:{port}", "/big", tmp_path / "a", resume=True).resumed is False
    assert (tmp_path / "a").read_bytes() == changed and flaky.asked[1] > 0 == flaky.asked[2]


@pytest.mark.parametrize("step", [100_000, -1])
def test_a_part_is_not_taken_for_the_rest(tmp_path, step):
    """A source may send less than the rest that was asked for. One that sends more than it says is not believed."""
    flaky = Flaky()

    def answer(handler):
        if not handler.headers.get("Range"):
            return flaky(handler)
        begin, size = int(handler.headers["Range"][6:-1]), len(flaky.body)
        flaky.asked.append(begin)
        end = min(begin + step, size) if step > 0 else size
        return reply(handler, 206, flaky.body[begin:end] + (b"" if step > 0 else b"more"), ETag='"v1"',
                     Content_Range=f"bytes {begin}-{end - 1}/{size}")

    with http_server(answer) as port:
        with pytest.raises(Retry):
            fetch(f"http://127.0.0.1:{port}", "/big", tmp_path / "a", resume=True)
        if step < 0:
            with pytest.raises(Retry):
                fetch(f"http://127.0.0.1:{port}", "/big", tmp_path / "a", resume=True)
        got = fetch(f"http://127.0.0.1:{port}", "/big", tmp_path / "a", resume=True)
    assert (tmp_path / "a").read_bytes() == flaky.body and got.resumed is (step > 0)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_part_to_which_somebody_still_writes_is_left_alone(tmp_path):
    """A process that stood still and was given up wakes and writes on; whoever has begun anew is not harmed."""
    flaky, go_on, half = Flaky(breaks=0), threading.Event(), threading.Event()
    results = []

    def answer(handler):
        if flaky.asked:
            return flaky(handler)
        flaky.asked.append("first")
        handler.send_response(200)
        handler.send_header("ETag", '"v1"')
        handler.send_header("Content-Length", str(len(flaky.body)))
        handler.end_headers()
        handler.wfile.write(flaky.body[:200_000])
        go_on.wait(60)
        handler.wfile.write(flaky.body[200_000:])
        handler.close_connection = True

    with http_server(answer) as port:
        source = f"http://127.0.0.1:{port}"
        first = threading.Thread(target=lambda: results.append(fetch(
            source, "/big", tmp_path / "1", resume=True, on_progress=lambda done, total: half.set())))
        first.start()
        assert half.wait(60)
        second = fetch(source, "/big", tmp_path / "2", resume=True, earlier=waiting(tmp_path))
        go_on.set()
        first.join()
    assert flaky.asked == ["first", (None, None)] and second.resumed is False
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes() == flaky.body
    assert results[0].sha256 == second.sha256


def test_an_earlier_part_is_taken_over_and_useless_ones_go(tmp_path):
    flaky = Flaky()
    with http_server(flaky) as port:
        source = f"http://127.0.0.1:{port}"
        with pytest.raises(Retry):
            fetch(source, "/big", tmp_path / "1", resume=True)
        (tmp_path / "0").write_bytes(b"of a killed process, without a note")
        assert fetch(source, "/big", tmp_path / "2", resume=True, earlier=waiting(tmp_path)).resumed
    assert [path.name for path in tmp_path.iterdir()] == ["2"] and flaky.asked[1][0]
