"""The same house with its artifacts in S3: what goes in over HTTP comes out over HTTP."""

import os

import pytest
import requests

from jobs.artifacts.retention import Retention
from tests.web.files import FileServer

CONTENT = os.urandom(3 << 20)


@pytest.fixture(params=["s3"])
def kind(request):
    return request.param


@pytest.fixture
def web(bucket, tmp_path):
    server = FileServer(tmp_path, artifacts_url=bucket)
    yield server
    server.stop()


def test_uploads_downloads_ranges_links_folders_and_retention(web):
    alice = web.http("alice")
    body = alice.post("/v1/files?name=表.bin", data=CONTENT).json()
    assert web.leftovers() == [] and web.store.open(web.db.read().value("SELECT key FROM artifacts")).read(5) == CONTENT[:5]
    assert alice.get(body["url"]).content == requests.get(body["link"], timeout=30).content == CONTENT
    part = alice.get(body["url"], headers={"Range": "bytes=2000000-2999999"})
    assert part.status_code == 206 and part.content == CONTENT[2_000_000:3_000_000]
    assert alice.get(body["url"], headers={"If-None-Match": part.headers["ETag"]}).status_code == 304
    assert alice.head(body["url"]).headers["Content-Length"] == str(len(CONTENT))
    folder = web.leave(web.running(), {"index.m3u8": b"a.ts\n", "x/a.ts": b"ts"}, "hls")
    assert requests.get(folder.link, timeout=30).content == b"a.ts\n"
    assert alice.get(f"/v1/artifacts/{folder.id}/content/x/a.ts").content == b"ts"
    for path in ("x", "x/b.ts", "../a", "%2e%2e/x"):
        assert alice.get(f"/v1/artifacts/{folder.id}/content/{path}").status_code == 404
    assert len(alice.get(f"/v1/artifacts/{folder.id}/content").json()["files"]) == 2
    assert alice.delete(f"/v1/artifacts/{body['id']}").status_code == 204
    Retention(web.db, web.store, web.settings).sweep()
    assert [leaf.key for leaf in web.store.leaves()] == [folder.key]


def test_a_storage_that_is_away_is_503(bucket, tmp_path):
    web = FileServer(tmp_path, environ={"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}, artifacts_url=bucket)
    try:
        alice, row = web.http("alice"), web.upload()
        answer = alice.post("/v1/files", data=b"x")
        assert answer.status_code == 503 and answer.headers["Retry-After"] and web.leftovers() == []
        assert alice.get(f"/v1/artifacts/{row.id}/content").status_code == 503
        assert alice.get(f"/v1/artifacts/{row.id}").status_code == 200
    finally:
        web.stop()
