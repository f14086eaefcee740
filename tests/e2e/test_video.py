"""Videos through the whole running server: upload, submit, watch, play, cancel."""

import json
import os
import re
import signal
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urljoin

import pytest

from jobs.types import ffmpeg
from tests.clips import FFMPEG, clip  # noqa: F401
from tests.stack import Stack, descendants, wait_for


@pytest.fixture(scope="module")
def alice(server):
    return server.session("alice")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A server with a stand-in for ffmpeg.

    At one size it runs out of memory, as 2160p does on a small machine; while the file `odd.slow` exists it all but
    stops after eight seconds of the film.
    """
    folder = tmp_path_factory.mktemp("odd")
    slow, program = folder / "slow", folder / "ffmpeg"
    program.write_text(f"""#!/bin/sh
case "$*" in *scale=640:360*) kill -9 $$;; esac
[ -e {slow} ] && exec {FFMPEG} -readrate 0.05 -readrate_initial_burst 8 "$@"
exec {FFMPEG} "$@"
""")
    program.chmod(0o755)
    with Stack(folder, ffmpeg=str(program)) as stack:
        stack.slow = slow
        yield stack


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


def test_sound_is_a_rendition_beside_pictures(alice, clip, tmp_path):  # noqa: F811
    job = alice.finished(transcode(alice, clip("plain.mp4"), "audio", "240p", mp4=True)["id"])
    assert job["result"] == {"created": [f"{job['resource']}/playlists/audio", f"{job['resource']}/playlists/240p"]}
    video = alice.get(job["resource"]).json()
    sound, _ = video["playlists"]
    assert (sound["name"], sound["width"], sound["height"]) == ("audio", None, None)
    assert sound["duration"] == pytest.approx(3, abs=0.1) and sound["bandwidth"] < 400_000
    assert (video["poster"], video["warnings"]) == (f"{job['resource']}/poster.jpg", [])
    made = fetch_rendition(alice, alice.get(sound["href"]).json()["manifest"], tmp_path / "sound")
    assert (made.picture, made.found) == (None, ["audio: aac (LC)"])
    whole = alice.get(sound["mp4"])
    assert whole.headers["Content-Type"].startswith("audio/") and sound["mp4"].endswith("/audio.m4a")
    (tmp_path / "audio.m4a").write_bytes(whole.content)
    assert probe(tmp_path / "audio.m4a").duration == pytest.approx(3, abs=0.1)
    streams = [line for line in alice.get(f"{job['resource']}/index.m3u8").text.splitlines() if "STREAM-INF" in line]
    assert ["RESOLUTION" in line for line in streams] == [True, False] and streams[-1].endswith('CODECS="mp4a.40.2"')


def test_a_song_becomes_a_playlist_with_its_cover(alice, clip, tmp_path):  # noqa: F811
    job = alice.finished(transcode(alice, clip("cover.mp3"), "audio")["id"])
    assert job["status"] == "succeeded", job
    song = alice.get(job["resource"]).json()
    assert song["warnings"] == [] and alice.get(song["poster"]).content.startswith(b"\xff\xd8")
    made = fetch_rendition(alice, f"{song['playlists'][0]['href']}/index.m3u8", tmp_path / "song")
    assert made.duration == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(("name", "wanted", "made", "lack"), [
    ("audio.mp3", ["240p", "audio"], ["audio"], "no video stream"),
    ("mute.mp4", ["240p", "audio"], ["240p"], "no audio stream"),
])
def test_what_the_source_lacks_fails_alone(alice, clip, name, wanted, made, lack):  # noqa: F811
    job = alice.finished(transcode(alice, clip(name), *wanted)["id"])
    assert job["status"] == "partialSuccess"
    assert job["result"] == {"created": [f"{job['resource']}/playlists/{one}" for one in made]}
    assert lack in job["error"]["errors"][0]["detail"]
    video = alice.get(job["resource"]).json()
    assert (video["poster"] is None) == (made == ["audio"]) and "poster" not in " ".join(video["warnings"])


def test_percentages_rise_on_the_stream(alice, clip):  # noqa: F811
    job = transcode(alice, clip("reel.mp4"), "360p", "240p")
    seen = [(frame["progress"], frame["stage"]) for frame in alice.frames(job["id"])]
    percentages = [progress for progress, _ in seen]
    assert percentages == sorted(percentages)
    assert len({progress for progress in percentages if 0 < progress < 100}) >= 5, seen
    assert percentages[-1] == 100
    assert {"encoding 360p", "encoding 240p"} <= {stage for _, stage in seen}


@pytest.mark.parametrize(("name", "renditions", "words"), [
    ("audio.mp3", "240p", "audio: mp3"), ("cover.m4a", "240p", "attached picture: mjpeg"),
    ("mute.mp4", "audio", "no audio stream"),
    ("zero.mp4", "240p audio", "no video stream that can be decoded and no audio stream that can be decoded"),
    ("zero.mp4", "240p", "an empty file"),
    ("text.mp4", "240p", "text"), ("playlist.m3u8", "240p", "a list of other files"),
    ("playlist.mp4", "audio", "a list of other files"), ("concat.mp4", "240p", "a list of other files"),
    ("cut-index-last.mp4", "240p", "its end may be missing"),
    ("hollow.mp4", "240p", "nothing in the source could be decoded"),
])
def test_a_bad_source_fails_and_says_what_was_found(alice, clip, name, renditions, words):  # noqa: F811
    job = alice.finished(transcode(alice, clip(name), *renditions.split())["id"])
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
    for client, payload, *pointers in [
        (alice, {"sourceUrl": mine, "transcode": ["721p"]}, "#/transcode/0"),
        (alice, {"sourceUrl": mine, "transcode": []}, "#/transcode"),
        (alice, {"sourceUrl": mine, "transcode": ["720p", "999p", "720p"]}, "#/transcode/1", "#/transcode/2"),
        (bob, {"sourceUrl": mine, "transcode": ["240p"]}, "#/sourceUrl"),
        (bob, {"sourceUrl": "/v1/artifacts/99999/content", "transcode": ["240p"]}, "#/sourceUrl"),
        (bob, {"sourceUrl": "file:///etc/passwd", "transcode": ["240p"]}, "#/sourceUrl"),
        (bob, {"sourceUrl": "http://169.254.169.254/latest", "transcode": ["240p"]}, "#/sourceUrl"),
    ]:
        answer = client.post("/v1/videos", json=payload)
        assert answer.status_code == 422, answer.text
        assert [entry["pointer"] for entry in answer.json().get("errors", [])] == pointers, answer.text
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


def test_a_worker_killed_in_the_middle_leaves_nothing_and_the_next_attempt_succeeds(odd, clip):  # noqa: F811
    client, work = odd.session("carol"), odd.data / "work"
    odd.slow.touch()
    job = transcode(client, clip("long.mp4"), "240p", "audio")
    wait_for(lambda: list(work.glob(f"{job['id']}-1/**/*.ts")), 60, "the first segment")
    odd.slow.unlink()
    [worker] = odd.pids("worker")
    os.kill(worker, signal.SIGKILL)
    assert client.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"] == []
    assert client.get(f"{job['resource']}/index.m3u8").status_code == 404
    assert not list((odd.data / "artifacts").glob(f"jobs/{job['id']}/**/*.ts"))
    wait_for(lambda: not ffmpegs(odd), 30, "the first ffmpeg to be gone")
    job = client.finished(job["id"], 120)
    assert (job["status"], job["attempt"]) == ("succeeded", 2)
    assert [one["name"] for one in client.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]] == ["hls"]
    assert client.get(f"{job['resource']}/index.m3u8").status_code == 200
    wait_for(lambda: not list(work.glob(f"{job['id']}-*")), 30, "the temporary folders to be gone")


def test_an_ffmpeg_that_is_not_there_stops_the_start(stack):
    stack.settings["ffmpeg"] = "/nowhere/ffmpeg"
    assert stack.command("start").wait(60) == 3
    assert "ACCEPTED_FFMPEG=/nowhere/ffmpeg: there is no such program." in stack.output()
    assert "Traceback" not in stack.output()


def test_one_rendition_may_fail_alone(odd, clip):  # noqa: F811
    client = odd.session("alice")
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
    video.playbackRate = 4;
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
    job = alice.finished(transcode(alice, clip("rotated.mp4"), "360p", "audio")["id"])
    [folder] = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{server.url}/livez")
        outcome, duration, width, height = page.evaluate(PLAY, folder["link"])
        browser.close()
    assert (outcome, width, height) == ("ended", 360, 640)
    assert duration == pytest.approx(3, abs=0.1)
