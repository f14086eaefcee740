"""Artifacts over real HTTP: bytes, ranges, conditions, names, links, and who may see what."""

import http.client
import os
import re
import subprocess
from datetime import timedelta
from email.utils import format_datetime
from urllib.parse import urlsplit

import pytest
import requests

from jobs import clock

CONTENT = os.urandom(300_000)
DAY = 86400


@pytest.fixture
def alice(web):
    return web.http("alice")


@pytest.fixture(scope="session")
def file(web):
    return web.upload(CONTENT, name="big.csv")


@pytest.fixture(scope="session")
def folder(web):
    job = web.running()
    return web.leave(job, {"index.m3u8": b"#EXTM3U\n720p/index.m3u8\n", "720p/index.m3u8": b"#EXTM3U\na.ts\n",
                           "720p/a.ts": CONTENT[:5000], "表 \"q\".txt": b"cjk"}, "hls")


def content(row, path=""):
    return f"/v1/artifacts/{row.id}/content{path}"


def test_the_whole_file(alice, file):
    answer = alice.get(content(file))
    assert answer.status_code == 200 and answer.content == CONTENT
    assert answer.headers["Content-Length"] == str(len(CONTENT)) and answer.headers["Content-Type"] == "text/csv"
    assert answer.headers["Accept-Ranges"] == "bytes" and re.fullmatch(r'"[0-9a-f]{24}"', answer.headers["ETag"])
    assert answer.headers["Content-Security-Policy"] == "sandbox" and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="big.csv"'
    assert answer.headers["Cache-Control"] == "private, no-cache"


def test_head_tells_what_get_would(alice, file):
    got, head = alice.get(content(file)), alice.head(content(file))
    assert head.status_code == 200 and head.content == b""
    apart = ("Date", "X-Request-Id")
    assert {n: v for n, v in got.headers.items() if n not in apart} == {n: v for n, v in head.headers.items() if n not in apart}


@pytest.mark.parametrize("asked, start, stop", [
    ("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=299999-", 299_999, 300_000), ("bytes=-1", 299_999, 300_000),
    ("bytes=0-", 0, 300_000), ("bytes=100-999999999", 100, 300_000), ("bytes=-999999999", 0, 300_000),
    ("bytes=1000-200000", 1000, 200_001)])
def test_a_range(alice, file, asked, start, stop):
    answer = alice.get(content(file), headers={"Range": asked})
    assert answer.status_code == 206 and answer.content == CONTENT[start:stop]
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/300000"
    assert answer.headers["Content-Length"] == str(stop - start)


@pytest.mark.parametrize("asked", ["bytes=300000-", "bytes=999999-1000000", "bytes=-0"])
def test_a_range_outside_is_416(alice, file, asked):
    answer = alice.get(content(file), headers={"Range": asked})
    assert answer.status_code == 416 and answer.headers["Content-Range"] == "bytes */300000"
    assert answer.headers["Content-Type"] == "application/problem+json" and answer.json()["status"] == 416


@pytest.mark.parametrize("asked", ["bytes=5-1", "bytes=x-y", "lines=0-1", "bytes", "bytes=0-1,5-6", "", "bytes=--1"])
def test_what_is_no_single_range_gets_the_whole(alice, file, asked):
    answer = alice.get(content(file), headers={"Range": asked})
    assert answer.status_code == 200 and answer.content == CONTENT


def test_a_range_of_an_empty_file_and_of_head(web, alice, file):
    empty = web.upload(b"")
    assert alice.get(content(empty), headers={"Range": "bytes=0-"}).status_code == 416
    head = alice.head(content(file), headers={"Range": "bytes=0-1"})
    assert head.status_code == 200 and head.headers["Content-Length"] == "300000"


def test_if_range(alice, file):
    first = alice.head(content(file)).headers
    for validator, status in ((first["ETag"], 206), (first["Last-Modified"], 206), ('"other"', 200), (f'W/{first["ETag"]}', 200),
                              ("Mon, 01 Jan 2024 00:00:00 GMT", 200)):
        answer = alice.get(content(file), headers={"Range": "bytes=0-9", "If-Range": validator})
        assert (answer.status_code, len(answer.content)) == (status, 10 if status == 206 else 300_000), validator


def test_conditions(alice, file):
    first = alice.head(content(file)).headers
    tag, date = first["ETag"], first["Last-Modified"]
    earlier = format_datetime(clock.parse(file.created_at) - timedelta(hours=1), usegmt=True)
    for headers, status in (
            ({"If-None-Match": tag}, 304), ({"If-None-Match": f'"x", W/{tag}'}, 304), ({"If-None-Match": "*"}, 304),
            ({"If-None-Match": '"x"'}, 200), ({"If-None-Match": '"x"', "If-Modified-Since": date}, 200),
            ({"If-Modified-Since": date}, 304), ({"If-Modified-Since": earlier}, 200), ({"If-Modified-Since": "nonsense"}, 200),
            ({"If-Match": tag}, 200), ({"If-Match": '"x"'}, 412), ({"If-Match": f"W/{tag}"}, 412), ({"If-Match": "*"}, 200),
            ({"If-Unmodified-Since": date}, 200), ({"If-Unmodified-Since": earlier}, 412),
            ({"If-None-Match": tag, "Range": "bytes=0-1"}, 304), ({"If-Match": '"x"', "Range": "bytes=0-1"}, 412)):
        answer = alice.get(content(file), headers=headers)
        assert answer.status_code == status, headers
        if status == 304:
            assert answer.content == b"" and answer.headers["ETag"] == tag and answer.headers["Cache-Control"]
            assert answer.headers["Vary"] and "Content-Type" not in answer.headers


def test_one_connection_serves_file_after_file(web, file):
    connection = http.client.HTTPConnection("127.0.0.1", web.port)
    for start in (0, 7, 100):
        connection.request("GET", content(file), headers={"Authorization": f"Bearer {web.key('alice')}", "Range": f"bytes={start}-"})
        answer = connection.getresponse()
        assert answer.status == 206 and answer.read() == CONTENT[start:]
    connection.close()


@pytest.mark.needs("curl")
def test_a_download_that_broke_off_is_resumed_by_curl(web, file, tmp_path):
    target = tmp_path / "part"
    target.write_bytes(CONTENT[:1234])
    subprocess.run(["curl", "-sfC", "-", "-o", target, "-H", f"Authorization: Bearer {web.key('alice')}", web.url + content(file)],
                   check=True)
    assert target.read_bytes() == CONTENT


def test_a_vanished_client_costs_nothing(web, alice, file):
    big = web.upload(b"x" * (20 << 20))
    for _ in range(12):  # more than there are threads
        client = web.send(f"GET {content(big)} HTTP/1.1")
        client.recv(1000)
        client.close()
    assert alice.get(content(file), timeout=60).status_code == 200


@pytest.mark.parametrize("name, header", [
    ("plain.csv", 'attachment; filename="plain.csv"'),
    ("季度 报告.csv", "attachment; filename=\"__ __.csv\"; filename*=UTF-8''%E5%AD%A3%E5%BA%A6%20%E6%8A%A5%E5%91%8A.csv"),
    ('a"b\\c.csv', "attachment; filename=\"c.csv\""),
    ('say "hi".csv', "attachment; filename=\"say _hi_.csv\"; filename*=UTF-8''say%20%22hi%22.csv"),
    ("x\r\nSet-Cookie: a=b.csv", 'attachment; filename="xSet-Cookie: a=b.csv"'),
    ("100%.csv", "attachment; filename=\"100_.csv\"; filename*=UTF-8''100%25.csv"),
    ("é.csv", "attachment; filename=\"_.csv\"; filename*=UTF-8''%C3%A9.csv")])
def test_names_travel_as_rfc_8187_has_it(web, alice, name, header):
    from jobs.artifacts import names

    row = web.upload(b"x", name=names.clean(name))
    answer = alice.get(content(row))
    assert answer.headers["Content-Disposition"] == header and "Set-Cookie" not in answer.headers
    assert requests.get(row.link, timeout=30).content == b"x"


def test_a_page_that_was_uploaded_runs_no_script(web, alice):
    body = alice.post("/v1/files?name=evil.html", data=b"<script>alert(1)</script>", headers={"Content-Type": "text/html"}).json()
    for url in (body["url"], body["link"]):
        headers = alice.get(url).headers
        assert headers["Content-Disposition"].startswith("attachment") and headers["Content-Security-Policy"] == "sandbox"
        assert headers["X-Content-Type-Options"] == "nosniff"


# Folders


def test_a_folder_lists_its_files_and_serves_them(alice, folder):
    listed = alice.get(content(folder)).json()["files"]
    assert [entry["path"] for entry in listed] == ["720p/a.ts", "720p/index.m3u8", "index.m3u8", '表 "q".txt']
    assert [entry["mediaType"] for entry in listed][:2] == ["video/mp2t", "application/vnd.apple.mpegurl"]
    for entry in listed:
        answer = alice.get(content(folder, "/" + entry["path"]))
        assert answer.status_code == 200 and len(answer.content) == entry["size"]
        assert answer.headers["Content-Type"].partition(";")[0] == entry["mediaType"]
    answer = alice.get(content(folder, "/720p/a.ts"), headers={"Range": "bytes=4990-"})
    assert answer.status_code == 206 and answer.content == CONTENT[4990:5000]
    tags = {alice.head(content(folder, "/" + entry["path"])).headers["ETag"] for entry in listed}
    assert len(tags) == 4


TRAVERSALS = ["/../../../../etc/passwd", "/%2e%2e/%2e%2e/accepted.db", "/..%2f..%2fsecret.key", "/720p/../../x", "//etc/passwd",
              "/%2fetc/passwd", "/720p", "/720p/", "/nothing", "/720p/a.ts/x", "/a%00b", "/%5c..%5cx", "/a%0ab", "/./index.m3u8",
              "/%ff", "/" + "x" * 5000, "/" + "x/" * 600]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_out_of_a_folder(web, folder, path):
    token = urlsplit(folder.link).path.split("/")[5]
    for start in (f"/v1/artifacts/{folder.id}/content", f"/v1/artifacts/{folder.id}/signed/{token}"):
        connection = http.client.HTTPConnection("127.0.0.1", web.port)
        connection.request("GET", start + path, headers={"Authorization": f"Bearer {web.key('alice')}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (400, 404, 308, 414) and b"root:" not in body and b"SQLite" not in body, (answer.status, body)
        connection.close()


def test_a_symlink_that_somebody_plants_is_not_followed(web, alice):
    row = web.leave(web.running(), {"a": b"a"}, "planted")
    path = web.settings.data_dir / "artifacts" / row.key
    (path / "key").symlink_to(web.settings.data_dir / "secret.key")
    (path / "up").symlink_to(web.settings.data_dir)
    for inner in ("/key", "/up/secret.key", "/up/accepted.db"):
        assert alice.get(content(row, inner)).status_code == 404
    assert alice.get(content(row)).status_code == 404  # a list of what is no longer plain is not given either
    assert alice.get(content(row, "/a")).content == b"a"


def test_a_file_has_no_files_inside(alice, file):
    assert alice.get(content(file, "/x")).status_code == 404


# Links


def test_a_link_works_with_and_without_a_key(web, alice, file):
    for headers in ({}, {"Authorization": f"Bearer {web.key('bob')}"}, {"Authorization": "Bearer nonsense"},
                    {"Authorization": "Basic eDp5"}):
        answer = requests.get(file.link, headers=headers, timeout=30)
        assert answer.status_code == 200 and answer.content == CONTENT
    assert requests.get(file.link, headers={"Range": "bytes=-5"}, timeout=30).content == CONTENT[-5:]
    assert requests.head(file.link, timeout=30).headers["Content-Length"] == "300000"
    assert alice.post(file.link).status_code == 405


def test_a_signed_playlist_plays_through(folder):
    assert folder.link.endswith("/index.m3u8")
    master = requests.get(folder.link, timeout=30)
    playlist = requests.get(requests.compat.urljoin(folder.link, master.text.splitlines()[1]), timeout=30)
    segment = requests.get(requests.compat.urljoin(playlist.url, playlist.text.splitlines()[1]), timeout=30)
    assert segment.content == CONTENT[:5000] and segment.headers["Content-Type"] == "video/mp2t"


def test_a_link_opens_one_artifact_only(web, file, folder):
    token = urlsplit(file.link).path.split("/")[5]
    unknown = requests.get(f"{web.url}/v1/artifacts/999999/signed/{token}/x", timeout=30)
    for bad in (f"/v1/artifacts/{folder.id}/signed/{token}/index.m3u8", f"/v1/artifacts/{file.id}/signed/{token[:-1]}/x",
                f"/v1/artifacts/{file.id}/signed/{token.replace('.', 'x')}/x", f"/v1/artifacts/{file.id}/signed/x",
                f"/v1/artifacts/{file.id}/signed/9{token}/big.csv"):
        answer = requests.get(web.url + bad, timeout=30)
        assert answer.status_code == 404 and answer.content == unknown.content


def test_a_link_expires_and_is_made_anew(web, alice):
    row = web.upload(b"x", seconds=10 * DAY, name="表.csv")
    try:
        web.clock.write_text(str(DAY + 60))
        answer = requests.get(row.link, timeout=30)
        assert answer.status_code == 410 and answer.json()["type"].endswith("/problems/link-expired")
        fresh = alice.post(f"/v1/artifacts/{row.id}:sign")
        link = fresh.json()["link"]
        assert fresh.status_code == 201 and link.rpartition("/")[2] == row.link.rpartition("/")[2] and link != row.link
        assert requests.get(link, timeout=30).content == b"x"
        assert alice.get(f"/v1/artifacts/{row.id}").json()["link"] == row.link, "what was minted once stays"
    finally:
        web.clock.write_text("0")


def test_who_may_sign(web, folder):
    path = f"/v1/artifacts/{folder.id}:sign"
    assert web.http("bob").post(path).status_code == 404
    assert web.http("eve", "read").post(path).status_code == 403
    link = web.http("root", "admin").post(path).json()["link"]
    assert link.endswith("/index.m3u8") and requests.get(link, timeout=30).status_code == 200
    assert requests.post(web.url + path, timeout=30).status_code == 401


# Who may see


def test_what_is_foreign_looks_like_what_never_was(web, file, folder):
    bob = web.http("bob")
    for path in (f"/v1/artifacts/{file.id}", content(file), content(folder), content(folder, "/index.m3u8"),
                 f"/v1/jobs/{folder.job_id}/artifacts"):
        foreign = bob.get(path)
        never = bob.get(re.sub(r"/\d+", "/999999", path, count=1))
        assert foreign.status_code == 404 and foreign.content == never.content
        assert requests.get(web.url + path, timeout=30).status_code == 401
        assert web.http("eve", "read").get(path).status_code == web.http("root", "admin").get(path).status_code == 200


def test_what_an_artifact_and_a_job_say(web, alice, folder):
    shown = alice.get(f"/v1/artifacts/{folder.id}")
    assert shown.json()["url"] == content(folder, "/") and shown.json()["kind"] == "folder"
    assert shown.json()["job"] == f"/v1/jobs/{folder.job_id}"
    assert alice.get(f"/v1/jobs/{folder.job_id}/artifacts").json() == {"artifacts": [shown.json()]}
    again = alice.get(f"/v1/artifacts/{folder.id}", headers={"If-None-Match": shown.headers["ETag"]})
    assert again.status_code == 304 and again.content == b""
    assert alice.get(f"/v1/artifacts/{folder.id}?x=1").status_code == 400
    assert alice.get(shown.json()["url"]).json()["files"]
    refused = alice.get(f"/v1/artifacts/{folder.id}", headers={"Accept": "text/html"})
    assert refused.status_code == 406 and refused.headers["Accept"] == "application/json"
    assert alice.get(content(folder, "/index.m3u8"), headers={"Accept": "text/html"}).status_code == 200
    assert alice.put(f"/v1/artifacts/{folder.id}").status_code == 405


def test_a_row_whose_bytes_are_gone_is_not_found(web, alice):
    row = web.upload(b"x")
    web.store.delete(row.key)
    assert alice.get(content(row)).status_code == 404
