"""Collections over real HTTP: states, lists, members, files and who may see them."""

import json
import os

import pytest
import requests

from jobs import clock
from jobs.core import access
from jobs.core.outcome import Failed, Succeeded
from jobs.errors import Problem
from tests.core.given import queued
from tests.web.files import Http

SEGMENT = os.urandom(5000)
HLS = {"index.m3u8": b"#EXTM3U\nplaylists/720p/index.m3u8\n", "playlists/720p/index.m3u8": b"#EXTM3U\n0.ts\n",
       "playlists/720p/0.ts": SEGMENT, "poster.jpg": b"jpeg", "page.html": b"<script>alert(1)</script>"}
PLAYLISTS = [{"name": "720p", "href": "/v1/videos/1/playlists/720p", "width": 1280}, {"name": "1080p", "href": "x"}]
DAY = 86400


@pytest.fixture
def alice(web):
    return web.http("alice")


VIDEO = dict(type="video.transcode", collection="videos", resource_fields='{"sourceUrl":"http://x/"}', resource_retention=90 * DAY)


def made(web, owner="alice", outcome=None):
    """The job of a finished video."""
    job = web.running(**VIDEO, owner=owner)
    web.leave(job, HLS, "hls")
    return web.settle(job, outcome or Succeeded('{"created":[]}', fields=json.dumps({"playlists": PLAYLISTS})))


@pytest.fixture(scope="session")
def video(web):
    return made(web)


def test_the_states_follow_the_job(web, alice):
    for outcome, status in ((None, "ready"), (Succeeded("{}", [{"part": "a", "detail": "b"}]), "ready"),
                            (Failed(Problem("job-raised")), "failed")):
        job = made(web, outcome=outcome)
        assert alice.get(job.resource).json()["status"] == status
    job = web.running(**VIDEO)
    answer = alice.get(job.resource)
    assert answer.json()["status"] == "processing" and "progress" not in answer.json()
    assert answer.json()["job"] == f"/v1/jobs/{job.id}" and answer.json()["sourceUrl"] == "http://x/"
    assert answer.headers["Link"] == f'<{web.url}/v1/jobs/{job.id}>; rel="monitor"'


def test_one_resource(alice, video):
    answer = alice.get(video.resource)
    body = answer.json()
    assert body["id"] == str(video.resource_id) and body["playlists"] == PLAYLISTS and body["expiresAt"] > body["createdAt"]
    assert answer.headers["Cache-Control"] == "private, no-cache" and "Link" not in answer.headers
    again = alice.get(video.resource, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304 and again.content == b"" and again.headers["ETag"] == answer.headers["ETag"]
    assert alice.head(video.resource).headers["ETag"] == answer.headers["ETag"]
    assert alice.get(video.resource + "?x=1").status_code == 400


# Members and files


def test_a_member_that_the_resource_names(alice, video):
    body = alice.get(f"{video.resource}/playlists/720p").json()
    assert body == PLAYLISTS[0] | {"manifest": f"{video.resource}/playlists/720p/index.m3u8"}
    assert alice.get(f"{video.resource}/playlists/1080p").json() == PLAYLISTS[1]  # named, without a folder of its own
    for path in ("playlists", "playlists/", "playlists/4k", "playlists/720", "sourceUrl/x", "playlists/720p/x"):
        assert alice.get(f"{video.resource}/{path}").status_code == 404, path


def test_the_files_play_from_the_master_down(web, alice, video):
    url, body = web.url + f"{video.resource}/index.m3u8", None
    for media_type in ("application/vnd.apple.mpegurl", "application/vnd.apple.mpegurl", "video/mp2t"):
        if body is not None:
            url = requests.compat.urljoin(url, body.decode().splitlines()[1])
        answer = alice.get(url)
        body = answer.content
        assert answer.headers["Content-Type"] == media_type and answer.headers["Content-Disposition"].startswith("inline")
    assert body == SEGMENT
    part = alice.get(url, headers={"Range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == SEGMENT[10:20]
    assert alice.get(url, headers={"If-None-Match": part.headers["ETag"]}).status_code == 304
    assert alice.head(url).headers["Content-Length"] == "5000"
    page = alice.get(f"{video.resource}/page.html")
    assert page.headers["Content-Security-Policy"] == "sandbox" and page.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["../../jobs/1", "%2e%2e/%2e%2e/secret.key", "..%2f..%2faccepted.db", "playlists/720p/", "%2fetc/passwd",
                                  "a%00", "nothing.ts", "playlists/../index.m3u8%00", "%5c..%5c"])
def test_no_path_leads_elsewhere(web, alice, video, path):
    prepared = requests.Request("GET", web.url, headers=alice.headers).prepare()
    prepared.url = f"{web.url}{video.resource}/{path}"
    assert alice.send(prepared, timeout=30).status_code in (404, 308)


def test_a_file_artifact_is_found_by_its_name(web, alice):
    job = web.running(**VIDEO)
    web.leave(job, b"a,b", "表.csv")
    job = web.settle(job)
    answer = alice.get(f"{job.resource}/表.csv")
    assert answer.content == b"a,b" and answer.headers["Content-Type"] == "text/csv"


def test_the_later_files_of_a_resource_made_anew_win(web, alice):
    first = made(web, outcome=Succeeded("{}", [{"part": "a", "detail": "b"}]))
    again = web.running(**VIDEO, resource_id=first.resource_id, retry_of=first.id)
    web.leave(again, {"index.m3u8": b"new"}, "hls")
    assert alice.get(first.resource + "/index.m3u8").content == HLS["index.m3u8"]
    web.settle(again)
    assert alice.get(first.resource + "/index.m3u8").content == b"new"


def test_files_of_a_running_job_do_not_show(web, alice):
    job = web.running(**VIDEO)
    web.leave(job, HLS, "hls")
    assert alice.get(job.resource + "/index.m3u8").status_code == 404


def test_the_dashboards_cookie_reads_and_nothing_else(web, video):
    from app import create_app

    web.key("alice")
    key_id = web.db.read().value("SELECT id FROM keys WHERE owner = 'alice'")
    app = create_app(web.settings)
    token = web.db.write(lambda tx: access.begin_session(tx, key_id, 60))
    value = app.session_interface.get_signing_serializer(app).dumps({"signed_in": token})
    browser = Http(web.url, None)
    browser.cookies[app.config["SESSION_COOKIE_NAME"]] = value
    assert browser.get(f"{video.resource}/playlists/720p/0.ts").content == SEGMENT
    assert browser.get(video.resource).status_code == browser.get("/v1/videos").status_code == 200
    assert browser.delete(video.resource).status_code == 401
    assert browser.post("/v1/files", data=b"x").status_code == 401


# Lists


def test_lists_page_without_loss_or_repeat(web):
    carol = web.http("carol")
    ids = [str(queued(web.db, **VIDEO, owner="carol").resource_id) for _ in range(7)]
    seen, url = [], "/v1/videos?limit=3"
    while url:
        answer = carol.get(url)
        seen += [entry["id"] for entry in answer.json()["videos"]]
        url = answer.json()["next"]
        assert (f'<{url}>; rel="next"' == answer.headers.get("Link")) if url else "Link" not in answer.headers
        queued(web.db, **VIDEO, owner="carol")  # what comes meanwhile stands before the first page
    assert seen == ids[::-1]


def test_lists_filter(web):
    dora = web.http("dora")
    ready, busy = made(web, "dora"), web.running(**VIDEO, owner="dora")
    by_status = {status: [entry["id"] for entry in dora.get(f"/v1/videos?status={status}").json()["videos"]]
                 for status in ("ready", "processing", "failed", "ready,processing")}
    both = [str(busy.resource_id), str(ready.resource_id)]
    assert by_status == {"ready": both[1:], "processing": both[:1], "failed": [], "ready,processing": both}
    row = web.db.read().one("SELECT created_at FROM resources WHERE id = :id", id=ready.resource_id)
    assert [entry["id"] for entry in dora.get(f"/v1/videos?createdAfter={row.created_at}").json()["videos"]] == both[:1]
    assert dora.get(f"/v1/videos?createdAfter={clock.after(5)}").json() == {"videos": [], "next": None}


@pytest.mark.parametrize("query", ["status=done", "stat=ready", "createdAfter=yesterday", "createdAfter=2026-01-01T00:00:00", "limit=-1",
                                   "limit=x", "cursor=%00", "cursor=abc", "page=2"])
def test_bad_queries_are_refused(alice, query):
    answer = alice.get(f"/v1/videos?{query}")
    assert answer.status_code == 400 and answer.headers["Content-Type"] == "application/problem+json"


def test_a_cursor_belongs_to_its_filter(web):
    erik = web.http("erik")
    for _ in range(3):
        queued(web.db, **VIDEO, owner="erik")
    following = erik.get("/v1/videos?limit=1").json()["next"]
    assert erik.get(following).status_code == 200
    assert erik.get(following + "&status=ready").status_code == 400
    assert web.http("alice").get(following).status_code == 400


def test_unknown_collections_are_not_found(alice):
    for path in ("/v1/nothing", "/v1/nothing/1", "/v1/nothing/1/x", "/v1/videos/0", "/v1/videos/x", "/v1/videos/99999999999999999999"):
        assert alice.get(path).status_code == 404, path


# Who may what


def test_what_is_foreign_looks_like_what_never_was(web, video):
    bob = web.http("bob")
    for path in ("", "/playlists/720p", "/index.m3u8", "/nothing"):
        foreign, never = bob.get(video.resource + path), bob.get("/v1/videos/999999" + path)
        assert foreign.status_code == 404 and foreign.content == never.content
        assert requests.get(web.url + video.resource + path, timeout=30).status_code == 401
    assert bob.delete(video.resource).content == bob.delete("/v1/videos/999999").content
    assert bob.get("/v1/videos").json()["videos"] == []
    for reader in (web.http("eve", "read"), web.http("root", "admin")):
        assert reader.get(video.resource).status_code == reader.get(video.resource + "/index.m3u8").status_code == 200
        assert str(video.resource_id) in [entry["id"] for entry in reader.get("/v1/videos?limit=200").json()["videos"]]


def test_deleting(web, alice):
    video, busy = made(web), web.running(**VIDEO)
    assert web.http("eve", "read").delete(video.resource).status_code == 403
    answer = alice.delete(busy.resource)
    assert answer.status_code == 409 and answer.json()["type"].endswith("/problems/resource-busy")
    assert alice.get(busy.resource).status_code == 200
    assert alice.delete(video.resource).status_code == 204
    for path in ("", "/index.m3u8", "/playlists/720p"):
        assert alice.get(video.resource + path).status_code == 404
    assert alice.delete(video.resource).status_code == 404
    assert alice.get(f"/v1/jobs/{video.id}/artifacts").json() == {"artifacts": []}
    assert alice.patch(busy.resource).status_code == 405


def test_a_revoked_key_sees_nothing(web, video):
    token = web.db.write(lambda tx: access.make_key(tx, "alice", "submit"))
    session = Http(web.url, token)
    assert session.get(video.resource).status_code == 200
    key_id = web.db.read().value("SELECT max(id) FROM keys")
    web.db.write(lambda tx: access.revoke(tx, key_id))
    assert session.get(video.resource + "/index.m3u8").status_code == 401
