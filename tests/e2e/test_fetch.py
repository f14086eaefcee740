"""url.fetch through the whole running server, from sources that are real and not all of them kind."""

import hashlib
import os
import signal
import threading

import pytest
import requests

from tests.outbound import http_server, reply
from tests.stack import Stack, wait_for
from tests.test_downloads_from_outside import Flaky

BODY = b"0123456789" * 50_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Stack(tmp_path_factory.mktemp("fetch"), allowed_targets="127.0.0.0/8", workers="1", lease="2", heartbeat="500ms") as stack:
        yield stack


@pytest.fixture(scope="module")
def alice(server):
    return server.session("alice")


def test_a_file_is_kept_with_its_digest(alice):
    digest = hashlib.sha256(BODY).hexdigest()
    with http_server(lambda handler: reply(handler, body=BODY, Content_Type="video/mp4")) as port:
        url = f"http://127.0.0.1:{port}/films/one.mp4?x=1"
        done = alice.finished(alice.submit("url.fetch", url=url, sha256=digest.upper())["id"])
        renamed = alice.finished(alice.submit("url.fetch", url=url, name="other.bin")["id"])
        wrong = alice.finished(alice.submit("url.fetch", url=url, sha256="0" * 64)["id"])
    result = done["result"]
    assert (result["name"], result["mediaType"], result["size"], result["sha256"]) == ("one.mp4", "video/mp4", len(BODY), digest)
    assert requests.get(result["download_url"], timeout=60).content == BODY
    [artifact] = alice.get(f"/v1/jobs/{done['id']}/artifacts").json()["artifacts"]
    assert (artifact["name"], artifact["size"], artifact["sha256"]) == ("one.mp4", len(BODY), digest)
    assert renamed["result"]["name"] == "other.bin"
    assert wrong["error"]["type"].endswith("/problems/source-differs") and digest in wrong["error"]["detail"]
    assert alice.get(f"/v1/jobs/{wrong['id']}/artifacts").json()["artifacts"] == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/x", "http://[fd00::1]/", "ftp://example.org/x", "/v1/artifacts/1", "no address"])
def test_an_address_that_may_not_be_fetched_is_refused_at_once(alice, url):
    answer = alice.post("/v1/jobs", json={"type": "url.fetch", "payload": {"url": url}})
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == "#/payload/url"


@pytest.mark.parametrize(("status", "slug"), [(404, "source-unavailable"), (403, "source-unavailable")])
def test_a_source_that_refuses_fails_the_job(alice, status, slug):
    with http_server(lambda handler: reply(handler, status)) as port:
        job = alice.finished(alice.submit("url.fetch", url=f"http://127.0.0.1:{port}/")["id"])
    assert (job["attempt"], job["error"]["type"].rpartition("/")[2]) == (1, slug)


def test_a_broken_download_goes_on_in_the_next_attempt(server, alice):
    flaky = Flaky()
    with http_server(flaky) as port:
        job = alice.finished(alice.submit("url.fetch", url=f"http://127.0.0.1:{port}/big")["id"])
    assert (job["status"], job["attempt"], job["result"]["sha256"]) == ("succeeded", 2, hashlib.sha256(flaky.body).hexdigest())
    assert flaky.asked[1][0].startswith("bytes=") and flaky.asked[1][1] == '"v1"'
    assert not list((server.data / "work").glob(f"{job['id']}-*"))


def test_a_retry_of_a_failed_job_goes_on_too(server, alice):
    flaky = Flaky()
    with http_server(flaky) as port:
        failed = alice.finished(alice.submit("url.fetch", {"maxAttempts": 1}, url=f"http://127.0.0.1:{port}/big")["id"])
        assert failed["status"] == "failed"
        again = alice.post(f"/v1/jobs/{failed['id']}:retry").json()
        assert alice.finished(again["id"])["status"] == "succeeded"
    assert flaky.asked[1][0].startswith("bytes=")
    assert not [path for id in (failed["id"], again["id"]) for path in (server.data / "work").glob(f"{id}-*")]


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_in_the_middle_of_it(server, alice, how):
    """A cancel ends it; after the death of its worker the next attempt goes on. Neither leaves half a file."""
    asked, go_on = [], threading.Event()

    def slow(handler):
        asked.append(handler.headers.get("Range"))
        begin = int(asked[-1][6:-1]) if asked[-1] else 0
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(BODY) - 1}/{len(BODY)}")
        handler.send_header("ETag", '"v1"')
        handler.send_header("Content-Length", str(len(BODY) - begin))
        handler.end_headers()
        handler.wfile.write(BODY[begin:] if begin else BODY[:len(BODY) // 2])
        handler.wfile.flush()
        if not begin:
            go_on.wait(60)
        handler.close_connection = True

    with http_server(slow) as port:
        job = alice.submit("url.fetch", url=f"http://127.0.0.1:{port}/big")["id"]
        wait_for(lambda: alice.job(job)["progress"], what="progress")
        assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []
        if how == "cancel":
            alice.delete(f"/v1/jobs/{job}")
            assert alice.finished(job)["status"] == "cancelled"
        else:
            os.kill(server.pids("worker")[0], signal.SIGKILL)
            done = alice.finished(job)
            assert (done["status"], done["attempt"], done["result"]["sha256"]) == ("succeeded", 2, hashlib.sha256(BODY).hexdigest())
            assert len(asked) == 2 and asked[1]
            assert not list((server.data / "work").glob(f"{job}-*"))
        go_on.set()
