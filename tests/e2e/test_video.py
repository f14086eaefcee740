"""Videos through the whole running server: upload, submit, watch, play, cancel."""

import json
import re
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urljoin

import pytest

from jobs.types import ffmpeg
from tests.clips import FFMPEG, clip  # noqa: F401
from tests.stack import descendants, wait_for


@pytest.fixture(scope="module")
def alice(server):
    return server.session("alice")


def upload(client, path) -> str:
    """The url of the uploaded file."""
    with path.open("rb") as file:
        answer = client.post("/v1/files", params={"name": path.name}, data=file)
    assert answer.status_code == 201, answer.text
    return answer.json()["url"]


def transcode(client, path, *renditions, **more) -> dict:
    """The job, accepted."""
    return client.submit("video.transcode", sourceUrl=upload(client, path), transcode=list(renditions), **more)


def fetch_rendition(client, manifest: str, into) -> ffmpeg.Source:
    """Fetch a playlist and every segment in it over HTTP; what ffmpeg finds in the whole."""
    answer = client.get(manifest)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"].startswith("application/vnd.apple.mpegurl")
    assert answer.text.rstrip().endswith("#EXT-X-ENDLIST")
    segments = re.findall(r"^[^#\s]+$", answer.text, re.MULTILINE)
    assert segments
    with into.open("wb") as whole:
        for name in segments:
            segment = client.get(urljoin(client.base + manifest, name))
            assert segment.status_code == 200 and segment.content
            whole.write(segment.content)
    return probe(into)


def probe(path) -> ffmpeg.Source:
    source = ffmpeg.Source(path)
    for line in subprocess.run(ffmpeg.describe(FFMPEG, path), capture_output=True, text=True).stdout.splitlines():
        source.feed(line)
    return source


def ffmpegs(server) -> list[str]:
    return [line for line in descendants(server.process.pid).values() if "-progress" in line or "max_pixels" in line]


def test_a_rotated_clip_with_sound_is_upright_whole_and_playable(alice, clip, tmp_path):  # noqa: F811
    job = alice.finished(transcode(alice, clip("rotated.mp4"), "720p", "240p", mp4=True)["id"])
    assert job["status"] == "succeeded", job
    assert job["result"] == {"created": [f"{job['resource']}/playlists/720p", f"{job['resource']}/playlists/240p"]}

    video = alice.get(job["resource"]).json()
    assert video["status"] == "ready" and video["sourceUrl"] == job["payload"]["sourceUrl"]
    assert [(one["name"], one["width"], one["height"], one["duration"]) for one in video["playlists"]] == [
        ("720p", 360, 640, 3.0), ("240p", 240, 426, 3.0)]
    assert video["warnings"] == ["720p: no larger than the source, 360×640."]

    for one in video["playlists"]:
        member = alice.get(one["href"]).json()
        assert member == one | {"manifest": f"{one['href']}/index.m3u8"}
        made = fetch_rendition(alice, member["manifest"], tmp_path / one["name"])
        assert (made.picture.width, made.picture.height) == (one["width"], one["height"])
        assert made.duration == pytest.approx(3, abs=0.1) and made.sound is not None
        (tmp_path / "one.mp4").write_bytes(alice.get(one["mp4"]).content)
        assert probe(tmp_path / "one.mp4").duration == pytest.approx(3, abs=0.1)

    poster = alice.get(video["poster"])
    assert poster.headers["Content-Type"] == "image/jpeg" and poster.content.startswith(b"\xff\xd8")
    master = alice.get(f"{job['resource']}/index.m3u8").text
    assert "playlists/720p/index.m3u8" in master and "RESOLUTION=240x426" in master


def test_a_variable_frame_rate_keeps_its_length(alice, clip, tmp_path):  # noqa: F811
    job = alice.finished(transcode(alice, clip("vfr.mkv"), "240p")["id"])
    [one] = alice.get(job["resource"]).json()["playlists"]
    made = fetch_rendition(alice, f"{one['href']}/index.m3u8", tmp_path / "made")
    assert one["duration"] == pytest.approx(3.99, abs=0.1) and made.duration == pytest.approx(3.99, abs=0.1)
    assert (made.picture.width, made.picture.height, made.sound) == (160, 90, None)


def test_percentages_rise_on_the_stream(alice, clip):  # noqa: F811
    job = transcode(alice, clip("reel.mp4"), "360p", "240p")
    seen = []
    with alice.get(f"/v1/jobs/{job['id']}/events", stream=True) as stream:
        for line in stream.iter_lines(decode_unicode=True):
            if line.startswith("data:"):
                frame = json.loads(line[5:])
                seen.append((frame["progress"], frame["stage"]))
    percentages = [progress for progress, _ in seen]
    assert percentages == sorted(percentages)
    assert len({progress for progress in percentages if 0 < progress < 100}) >= 5, seen
    assert percentages[-1] == 100
    assert {"encoding 360p", "encoding 240p"} <= {stage for _, stage in seen}


@pytest.mark.parametrize(("name", "words"), [
    ("audio.mp3", "audio: mp3"), ("cover.m4a", "attached picture: mjpeg"), ("zero.mp4", "an empty file"),
    ("text.mp4", "text"), ("playlist.m3u8", "a list of other files"), ("playlist.mp4", "a list of other files"),
    ("concat.mp4", "a list of other files"), ("cut-index-last.mp4", "its end may be missing"),
    ("hollow.mp4", "nothing in the source could be decoded"),
])
def test_a_bad_source_fails_and_says_what_was_found(alice, clip, name, words):  # noqa: F811
    job = alice.finished(transcode(alice, clip(name), "240p")["id"])
    assert (job["status"], job["attempt"]) == ("failed", 1), job
    assert job["error"]["type"].endswith("/problems/source-codec-unsupported") and job["error"]["status"] == 422
    assert words in job["error"]["detail"]
    assert "/tmp" not in json.dumps(job["error"])
    assert alice.get(job["resource"]).json()["status"] == "failed"
    assert alice.get(job["links"]["result"]).status_code == 422
    assert alice.get(f"{job['resource']}/index.m3u8").status_code == 404


def test_half_a_clip_succeeds_with_a_warning(alice, clip):  # noqa: F811
    job = alice.finished(transcode(alice, clip("cut-index-first.mp4"), "240p")["id"])
    assert job["status"] == "succeeded"
    assert "cut short" in " ".join(alice.get(job["resource"]).json()["warnings"])


def test_what_can_be_judged_at_once_is(server, alice, clip):  # noqa: F811
    mine = upload(alice, clip("mute.mp4"))
    bob = server.session("bob")
    for client, payload, pointer in [
        (alice, {"sourceUrl": mine, "transcode": ["721p"]}, "#/transcode/0"),
        (alice, {"sourceUrl": mine, "transcode": []}, "#/transcode"),
        (alice, {"sourceUrl": mine, "transcode": ["240p", "240p"]}, "#/transcode/1"),
        (bob, {"sourceUrl": mine, "transcode": ["240p"]}, "#/sourceUrl"),
        (bob, {"sourceUrl": "/v1/artifacts/99999/content", "transcode": ["240p"]}, "#/sourceUrl"),
        (bob, {"sourceUrl": "file:///etc/passwd", "transcode": ["240p"]}, "#/sourceUrl"),
        (bob, {"sourceUrl": "http://169.254.169.254/latest", "transcode": ["240p"]}, "#/sourceUrl"),
    ]:
        answer = client.post("/v1/videos", json=payload)
        assert answer.status_code == 422, answer.text
        assert [entry["pointer"] for entry in answer.json().get("errors", [])] == [pointer], answer.text
    assert bob.get("/v1/videos").json()["videos"] == []


def test_a_form_uploads_a_large_file_whole(alice, clip):  # noqa: F811
    path = clip("reel.mp4")
    with path.open("rb") as file:
        answer = alice.post("/v1/files", files={"file": ("talk.mp4", file)})
    assert answer.status_code == 201, answer.text
    assert (answer.json()["size"], answer.json()["name"]) == (path.stat().st_size, "talk.mp4")


def test_a_source_may_be_an_address(alice, clip):  # noqa: F811
    folder = clip("mute.mp4").parent

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{site.server_port}"
        good = alice.submit("video.transcode", sourceUrl=f"{base}/mute.mp4", transcode=["240p"])
        missing = alice.submit("video.transcode", sourceUrl=f"{base}/nothing.mp4", transcode=["240p"])
        assert alice.finished(good["id"])["status"] == "succeeded"
        error = alice.finished(missing["id"])["error"]
        assert error["type"].endswith("/problems/source-unavailable"), error
        site.shutdown()


def test_cancel_in_the_middle_leaves_neither_process_nor_file(server, alice, clip):  # noqa: F811
    job = transcode(alice, clip("epic.mp4"), "360p", "240p")
    wait_for(lambda: alice.job(job["id"])["progress"] and ffmpegs(server), what="ffmpeg to be at work")
    assert alice.post(f"/v1/jobs/{job['id']}:cancel").status_code == 202
    assert alice.finished(job["id"])["status"] == "cancelled"
    wait_for(lambda: not ffmpegs(server), what="ffmpeg to be gone")
    assert alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"] == []
    wait_for(lambda: not list((server.data / "work").glob(f"{job['id']}-*")), what="the temporary folder to be gone")
    assert not list((server.data / "artifacts").glob(f"jobs/{job['id']}/**/*.ts"))
    assert alice.get(job["resource"]).json()["status"] == "cancelled"
    assert alice.get(f"{job['resource']}/index.m3u8").status_code == 404


def test_one_rendition_may_fail_alone(stack, clip, tmp_path):  # noqa: F811
    """A stand-in for ffmpeg that runs out of memory at one size, as 2160p does on a small machine."""
    weak = tmp_path / "weak-ffmpeg"
    weak.write_text(f'#!/bin/sh\ncase "$*" in *scale=640:360*) kill -9 $$;; esac\nexec {FFMPEG} "$@"\n')
    weak.chmod(0o755)
    stack.settings["ffmpeg"] = str(weak)
    client = stack.start().session("alice")
    job = client.finished(transcode(client, clip("plain.mp4"), "360p", "240p")["id"])
    assert job["status"] == "partialSuccess"
    assert job["result"] == {"created": [f"{job['resource']}/playlists/240p"]}
    [failed] = job["error"]["errors"]
    assert "360p" in json.dumps(failed) and "killed" in failed["detail"]
    video = client.get(job["resource"]).json()
    assert video["status"] == "ready" and [one["name"] for one in video["playlists"]] == ["240p"]
    assert client.get(f"{job['resource']}/playlists/360p/index.m3u8").status_code == 404
    assert "360p" not in client.get(f"{job['resource']}/index.m3u8").text

    alone = client.submit("video.transcode", {"maxAttempts": 2}, sourceUrl=job["payload"]["sourceUrl"], transcode=["360p"])
    wait_for(lambda: client.job(alone["id"])["nextAttemptAt"] or client.job(alone["id"])["attempt"] == 2, 20,
             "another attempt: the source is not to blame")


PLAY = """async url => {
    const video = document.createElement('video');
    video.muted = true;
    video.src = url;
    document.body.append(video);
    const failed = new Promise(done => video.onerror = () => done(video.error.message));
    const ended = new Promise(done => video.onended = () => done('ended'));
    const played = video.play().then(() => ended, String);
    return [await Promise.race([failed, played]), video.duration, video.videoWidth, video.videoHeight];
}"""


@pytest.mark.browser
def test_chromium_plays_the_master_by_a_signed_link(server, alice, clip, chromium_path):  # noqa: F811
    from playwright.sync_api import sync_playwright
    job = alice.finished(transcode(alice, clip("rotated.mp4"), "360p")["id"])
    [folder] = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{server.url}/livez")
        outcome, duration, width, height = page.evaluate(PLAY, folder["link"])
        browser.close()
    assert (outcome, width, height) == ("ended", 360, 640)
    assert duration == pytest.approx(3, abs=0.1)
