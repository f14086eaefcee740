"""POST /v1/files: streamed, capped, whole or not at all."""

import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.web.files import ROOT, FileServer

MIB = 1 << 20


@pytest.fixture
def alice(web):
    return web.http("alice")


def test_a_raw_body_becomes_an_upload(web, alice):
    answer = alice.post("/v1/files?name=clip.mp4", data=b"0123456789", headers={"Content-Type": "video/mp4"})
    body = answer.json()
    assert answer.status_code == 201 and answer.headers["Location"] == f"{web.url}/v1/artifacts/{body['id']}"
    assert body["url"] == f"/v1/artifacts/{body['id']}/content" and body["name"] == "clip.mp4" and body["size"] == 10
    assert body["sha256"] == hashlib.sha256(b"0123456789").hexdigest() and body["mediaType"] == "video/mp4"
    assert body["expiresAt"] and body["kind"] == "upload"
    assert alice.get(body["url"]).content == b"0123456789"
    assert alice.get(answer.headers["Location"]).json() == body
    assert web.leftovers() == []


def test_a_form_becomes_an_upload(web, alice):
    content = os.urandom(2 * MIB)
    body = alice.post("/v1/files", files={"file": ("表 1.csv", content, "text/csv")}, data={"note": "x"}).json()
    assert (body["name"], body["mediaType"], body["size"]) == ("表 1.csv", "text/csv", len(content))
    assert body["sha256"] == hashlib.sha256(content).hexdigest()
    assert alice.get(body["url"]).content == content and web.leftovers() == []


def test_a_chunked_body_becomes_an_upload(alice):
    body = alice.post("/v1/files?name=a.bin", data=iter([b"a" * 70000, b"b" * 70000])).json()
    assert body["size"] == 140000 and alice.get(body["url"]).content == b"a" * 70000 + b"b" * 70000


def test_an_empty_file_is_a_file(alice):
    body = alice.post("/v1/files?name=empty", data=b"").json()
    assert body["size"] == 0
    answer = alice.get(body["url"])
    assert answer.status_code == 200 and answer.content == b"" and answer.headers["Content-Length"] == "0"


NAMELESS = b'--x\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n--x--\r\n'


@pytest.mark.parametrize("headers, body, status", [
    ({"Content-Length": "0"}, None, 400), ({"Content-Length": "0", "Content-Type": "application/x-www-form-urlencoded"}, None, 400),
    ({"Transfer-Encoding": "chunked"}, b"0\r\n\r\n", 400), ({}, None, 400),
    ({"Content-Length": "0", "Content-Type": "text/csv"}, None, 201),
    ({"Content-Length": "0", "Content-Disposition": 'attachment; filename="a"'}, None, 201),
    ({"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(len(NAMELESS))}, NAMELESS, 400),
    ({"Content-Type": "multipart/form-data; boundary=x", "Content-Length": "0"}, None, 400)])
def test_what_is_no_file_is_refused(web, alice, headers, body, status):
    client = http.client.HTTPConnection(web.url.removeprefix("http://"), timeout=60)
    client.putrequest("POST", "/v1/files")
    for name, value in ({"Authorization": alice.headers["Authorization"]} | headers).items():
        client.putheader(name, value)
    client.endheaders(body)
    answer = client.getresponse()
    told = json.loads(answer.read())
    client.close()
    assert answer.status == status, told
    assert "file" in told["detail"] if status == 400 else told["size"] == 0
    assert web.leftovers() == []


def test_a_name_alone_is_no_body(web, alice):
    client = http.client.HTTPConnection(web.url.removeprefix("http://"), timeout=60)
    client.putrequest("POST", "/v1/files?name=a.txt")
    client.putheader("Authorization", alice.headers["Authorization"])
    client.endheaders()
    assert client.getresponse().status == 400
    client.close()


@pytest.mark.parametrize("headers, name, media_type", [
    ({"Content-Disposition": "attachment; filename=\"a b.csv\"", "Content-Type": "text/csv; charset=utf-8"}, "a b.csv",
     "text/csv; charset=utf-8"),
    ({"Content-Disposition": "attachment; filename*=UTF-8''%E8%A1%A8.csv"}, "表.csv", "text/csv"),
    ({"Content-Type": "application/x-www-form-urlencoded"}, "file", "application/octet-stream"),
    ({"Content-Type": "nonsense; x=\"<script>\""}, "file", "application/octet-stream"),
    ({}, "file", "application/octet-stream")])
def test_name_and_type_come_from_the_headers(alice, headers, name, media_type):
    body = alice.post("/v1/files", data=b"x", headers=headers).json()
    assert (body["name"], body["mediaType"]) == (name, media_type)


@pytest.mark.parametrize("given, kept", [
    ("../../etc/passwd", "passwd"), ("ab%0d%0aX-Evil: 1.csv", "abX-Evil: 1.csv"), ("C:%5Cx.csv", "x.csv"), ("%22q%22.csv", '"q".csv'),
    ("..", "file")])
def test_names_lose_what_could_harm(web, alice, given, kept):
    body = alice.post(f"/v1/files?name={given}", data=b"x").json()
    assert body["name"] == kept
    answer = alice.get(body["url"])
    assert answer.content == b"x" and "X-Evil" not in answer.headers
    assert all(path.is_relative_to(web.settings.data_dir) for path in web.settings.data_dir.rglob("*"))


def test_the_cap_holds_however_the_body_is_framed(web, alice):
    too_much = b"x" * (3 * MIB + 1)
    for options in ({"data": too_much}, {"data": iter([too_much[:MIB]] * 3 + [b"x"])}, {"files": {"file": ("a", too_much)}}):
        # After so early an answer the server may close the connection with the rest of the body unread.
        answer = web.http("alice").post("/v1/files", **options)
        assert answer.status_code == 413 and answer.headers["Content-Type"] == "application/problem+json"
        assert str(3 * MIB) in answer.json()["detail"]
    assert alice.post("/v1/files", data=b"x" * 3 * MIB).status_code == 201
    assert alice.post("/v1/files", files={"file": ("a", b"x" * 3 * MIB)}).status_code == 201
    assert web.leftovers() == []


def test_forms_that_make_no_sense(alice):
    assert alice.post("/v1/files", files={"a": ("a", b"1"), "b": ("b", b"2")}).status_code == 400
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (b"", b"garbage", b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--x--\r\n",
                 b"--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"f\"\r\n\r\nno end"):
        assert alice.post("/v1/files", data=body, headers=form).status_code == 400, body
    assert alice.post("/v1/files", data=b"x", headers={"Content-Type": "multipart/form-data"}).status_code == 400


def test_unknown_parameters_are_refused(alice):
    assert alice.post("/v1/files?nom=x", data=b"x").status_code == 400


def test_who_may_upload(web):
    assert web.http("eve", "read").post("/v1/files", data=b"x").status_code == 403
    assert web.http("root", "admin").post("/v1/files", data=b"x").status_code == 201
    anonymous = web.http("alice")
    del anonymous.headers["Authorization"]
    answer = anonymous.post("/v1/files", data=b"x")
    assert answer.status_code == 401 and "WWW-Authenticate" in answer.headers


def count(web):
    return web.db.read().value("SELECT count(*) FROM artifacts")


@pytest.mark.parametrize("head, piece", [
    ("POST /v1/files HTTP/1.1\r\nContent-Length: 1000000", b"x" * 300_000),
    ("POST /v1/files HTTP/1.1\r\nTransfer-Encoding: chunked", b"493e0\r\n" + b"x" * 300_000 + b"\r\n493e0\r\nxx"),
    ("POST /v1/files HTTP/1.1\r\nContent-Length: 1000000\r\nContent-Type: multipart/form-data; boundary=x",
     b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' + b"x" * 300_000)])
@pytest.mark.parametrize("cut", ["closed", "silent"])
def test_a_cut_connection_leaves_nothing(web, alice, head, piece, cut):
    before = count(web)
    client = web.send(head, piece)
    web.wait(web.leftovers)
    if cut == "closed":
        client.close()
    web.wait(lambda: not web.leftovers())  # a silent client is given up after four keep-alives
    client.close()
    assert alice.post("/v1/files", data=b"x").status_code == 201
    assert count(web) == before + 1


def test_a_kill_in_the_middle_of_an_upload_leaves_no_artifact(tmp_path):
    web = FileServer(tmp_path)
    try:
        client = web.send("POST /v1/files HTTP/1.1\r\nContent-Length: 1000000", b"x" * 300_000)
        web.wait(web.leftovers)
        first = web.pid
        os.kill(first, signal.SIGKILL)
        client.close()
        web.wait(lambda: web._answers())
        assert count(web) == 0 and list(web.store.leaves()) == []
        assert len(web.leftovers()) == 1, "the sweep removes it after an hour"
        assert web.http("alice").post("/v1/files", data=b"x").status_code == 201
    finally:
        web.stop()


FULL = """
import json, os, sys, tempfile
from pathlib import Path
from tests.web.files import FileServer
web = FileServer(Path(sys.argv[1]))
first = web.http("alice").post("/v1/files", data=os.urandom(1 << 20))
full = web.http("alice").post("/v1/files", data=os.urandom(6 << 20))
form = web.http("alice").post("/v1/files", files={"file": ("a", os.urandom(6 << 20))})
left, size = web.leftovers(), len(list(web.store.leaves()))
last = web.http("alice").post("/v1/files", data=os.urandom(1 << 20))
print(json.dumps([first.status_code, full.status_code, full.json()["type"][-12:], form.status_code, left, size, last.status_code]))
web.stop()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_is_507_and_leaves_nothing(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "script.py").write_text(FULL)
    script = f"mount -t tmpfs -o size=6m none {tmp_path}/small && exec {sys.executable} {tmp_path}/script.py {tmp_path}/small"
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60,
                         env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [201, 507, "storage-full", 507, [], 1, 201]


def test_an_upload_is_taken_back_by_its_owner_only(web, alice):
    body = alice.post("/v1/files", data=b"x").json()
    path = f"/v1/artifacts/{body['id']}"
    assert web.http("bob").delete(path).status_code == 404
    assert web.http("eve", "read").delete(path).status_code == 403
    assert alice.delete(path).status_code == 204
    assert alice.get(path).status_code == alice.get(body["url"]).status_code == alice.delete(path).status_code == 404


def test_an_upload_in_use_is_not_taken_back(web, alice):
    row = web.upload(owner="alice")
    job = web.running(inputs=(row.id,))
    answer = alice.delete(f"/v1/artifacts/{row.id}")
    assert answer.status_code == 409 and answer.json()["type"].endswith("/problems/artifact-in-use")
    web.settle(job)
    assert alice.delete(f"/v1/artifacts/{row.id}").status_code == 204
    left = web.leave(web.running())
    assert alice.delete(f"/v1/artifacts/{left.id}").status_code == 409


@pytest.mark.needs("curl")
def test_the_commands_in_the_docs_work(web, tmp_path):
    (tmp_path / "clip.mp4").write_bytes(b"moving")
    block = re.search(r"```sh\n(.*?)```", (ROOT / "docs" / "artifacts.md").read_text(), re.DOTALL)[1]
    for line in block.splitlines():
        ran = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=True,
                             env=os.environ | {"ACCEPTED_KEY": web.key("alice"), "ACCEPTED_URL": web.url})
        shown = json.loads(ran.stdout)
        assert (shown["name"], shown["size"], shown["mediaType"]) == ("clip.mp4", 6, "video/mp4"), line
    documented = re.search(r"```json\n(.*?)```", (ROOT / "docs" / "artifacts.md").read_text(), re.DOTALL)[1]
    assert list(json.loads(documented)) == list(shown)
