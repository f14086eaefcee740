"""url.fetch through the whole running server, from sources that are real and not all of them kind."""

import hashlib
import os
import signal
import threading

import pytest
import requests

from jobs import clock
from tests.outbound import http_server, reply
from tests.stack import Stack, wait_for
from tests.test_downloads_from_outside import Flaky

BODY = b"0123456789" * 50_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Stack(tmp_path_factory.mktemp("fetch"), allowed_targets="127.0.0.0/8", workers="2", lease="2", heartbeat="500ms") as stack:
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
    assert (result["artifact"], renamed["result"]["name"]) == (f"/v1/artifacts/{artifact['id']}", "other.bin")
    assert wrong["error"]["type"].endswith("/problems/source-differs") and digest in wrong["error"]["detail"]
    assert alice.get(f"/v1/jobs/{wrong['id']}/artifacts").json()["artifacts"] == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/x", "http://[fd00::1]/", "ftp://example.org/x", "/v1/artifacts/1", "no address"])
def test_an_address_that_may_not_be_fetched_is_refused_at_once(alice, url):
    answer = alice.post("/v1/jobs", json={"type": "url.fetch", "payload": {"url": url}})
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == "#/payload/url"


@pytest.mark.parametrize(("status", "slug"), [(404, "source-unavailable"), (403, "source-unavailable")])
def test_a_source_that_refuses_fails_the_job(server, alice, status, slug):
    with http_server(lambda handler: reply(handler, status)) as port:
        job = alice.finished(alice.submit("url.fetch", url=f"http://127.0.0.1:{port}/")["id"])
    assert (job["attempt"], job["error"]["type"].rpartition("/")[2]) == (1, slug)
    assert not list((server.data / "work").glob(f"{job['id']}-*"))


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


class Halting:
    """A source that sends half of BODY to the first who asks, and the rest of it when told to go on."""

    def __init__(self, etag='"v1"'):
        self.etag, self.asked, self.go_on, self.through = etag, [], threading.Event(), threading.Event()

    def __call__(self, handler):
        wanted = handler.headers.get("Range")
        self.asked.append(wanted)
        is_first, begin = len(self.asked) == 1, int(wanted[6:-1]) if wanted else 0
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Range", f"bytes {begin}-{len(BODY) - 1}/{len(BODY)}")
        handler.send_header("ETag", self.etag)
        handler.send_header("Content-Length", str(len(BODY) - begin))
        handler.end_headers()
        handler.close_connection = True
        if not is_first:
            handler.wfile.write(BODY[begin:])
            return
        handler.wfile.write(BODY[:len(BODY) // 2])
        handler.wfile.flush()
        try:
            self.go_on.wait(120)
            handler.wfile.write(BODY[len(BODY) // 2:])
        finally:
            self.through.set()


def worker_of(server, alice, job) -> int:
    """The pid of the worker that runs the job now."""
    name = alice.get(f"/v1/jobs/{job}/attempts").json()["attempts"][-1]["worker"]
    return next(pid for pid in server.pids("worker") if f"-{pid}-" in name)


def kept(server, job) -> list:
    return list((server.data / "work").glob(f"{job}-*"))


def halfway(alice, port) -> str:
    """The id of a job that has fetched half of the file; nothing of it can be seen."""
    job = alice.submit("url.fetch", url=f"http://127.0.0.1:{port}/big", sha256=hashlib.sha256(BODY).hexdigest())["id"]
    wait_for(lambda: alice.job(job)["progress"], what="progress")
    assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []
    return job


def test_a_cancel_leaves_nothing(server, alice):
    source = Halting()
    with http_server(source) as port:
        job = halfway(alice, port)
        alice.delete(f"/v1/jobs/{job}")
        assert alice.finished(job)["status"] == "cancelled"
        wait_for(lambda: not kept(server, job), what="no temporary folder")
        source.go_on.set()
    assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"'])
def test_after_the_death_of_its_worker_the_next_attempt_succeeds(server, alice, etag):
    """It goes on from what came, if the source has a strong ETag; either way nothing else is left."""
    source = Halting(etag)
    with http_server(source) as port:
        job = halfway(alice, port)
        os.kill(worker_of(server, alice, job), signal.SIGKILL)
        done = alice.finished(job)
        source.go_on.set()
    assert (done["status"], done["attempt"], done["result"]["sha256"]) == ("succeeded", 2, hashlib.sha256(BODY).hexdigest())
    assert len(source.asked) == 2 and bool(source.asked[1]) == (etag == '"v1"')
    [artifact] = alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"]
    assert alice.get(f"/v1/artifacts/{artifact['id']}/content").content == BODY
    wait_for(lambda: not kept(server, job), what="no temporary folder")


def test_a_worker_that_stood_still_spoils_nothing_when_it_wakes(server, alice):
    """Its lease is over and another attempt is through, while the download of the first still goes on."""
    source = Halting()
    with http_server(source) as port:
        job = halfway(alice, port)
        worker = worker_of(server, alice, job)
        os.kill(worker, signal.SIGSTOP)
        try:
            done = alice.finished(job)
            source.go_on.set()
            assert source.through.wait(120)
            assert requests.get(done["result"]["download_url"], timeout=60).content == BODY
        finally:
            os.kill(worker, signal.SIGCONT)
    assert (done["status"], done["attempt"], source.asked) == ("succeeded", 2, [None, None])
    assert [one["sha256"] for one in alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"]] == [done["result"]["sha256"]]


def test_the_next_attempt_waits_for_as_long_as_the_source_asks(alice):
    with http_server(lambda handler: reply(handler, 503, Retry_After="3000")) as port:
        job = alice.submit("url.fetch", url=f"http://127.0.0.1:{port}/")["id"]
        waiting = wait_for(lambda: (now := alice.job(job))["nextAttemptAt"] and now, what="a second attempt")
        last = alice.finished(alice.submit("url.fetch", {"maxAttempts": 1}, url=f"http://127.0.0.1:{port}/")["id"])
    assert waiting["status"] == "queued" and clock.seconds_until(waiting["nextAttemptAt"]) > 2000
    assert last["error"]["type"].endswith("/problems/source-unavailable") and last["error"]["detail"] == "The source answered 503."
    alice.delete(f"/v1/jobs/{job}")
