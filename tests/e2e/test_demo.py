"""`./run demo` from the outside."""

import os
import signal
import subprocess
import sys

import requests

from tests.stack import ROOT, descendants, wait_for


def demo(stack, *args, **options):
    return subprocess.run([sys.executable, "-m", "jobs.cli", "demo", *args], cwd=ROOT, env=stack.environment | options, text=True,
                          capture_output=True, timeout=180, stdin=subprocess.DEVNULL)


def test_the_demo_brings_its_own_server_and_clip(stack):
    done = demo(stack)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "720p/index.m3u8" in done.stdout and "480p/index.m3u8" in done.stdout
    assert not (stack.data / "redis.sock").exists()
    assert "The demo's server stops now" in done.stdout


def test_a_file_that_is_not_there_is_wrong_usage(stack):
    done = demo(stack, "nowhere.mov")
    assert done.returncode == 2 and "There is no file" in done.stderr


def test_the_demo_uses_a_running_server(stack, tmp_path):
    stack.start()
    done = demo(stack)
    assert done.returncode == 0, done.stdout + done.stderr
    job = stack.admin.get("/v1/jobs").json()["jobs"][0]
    assert job["type"] == "video.transcode" and job["status"] == "succeeded"
    playlist = next(word for word in done.stdout.split() if word.endswith("480p/index.m3u8"))
    assert stack.admin.get(playlist).text.startswith("#EXTM3U")


def test_a_cut_stream_is_mended(stack):
    stack.start()
    stack.process, server = stack.command("demo"), stack.process
    try:
        wait_for(lambda: "running encoding 720p" in stack.output(), 60, "the encoding")
        web = next(pid for pid, line in descendants(server.pid).items() if "gunicorn" in line)
        os.kill(web, signal.SIGKILL)
        assert stack.process.wait(120) == 0, stack.output()
        assert "480p/index.m3u8" in stack.output()
    finally:
        stack.process = server


def test_a_file_that_is_no_video_fails_with_a_reason(stack, tmp_path):
    (tmp_path / "notes.txt").write_text("not a video")
    stack.start()
    done = demo(stack, "notes.txt", CALLED_FROM=str(tmp_path))
    assert done.returncode == 1
    assert "The demo failed" in done.stderr and "Traceback" not in done.stderr


def test_a_missing_file_is_named(stack):
    done = demo(stack, "nowhere.mp4")
    assert done.returncode == 2 and "nowhere.mp4" in done.stderr


def test_keep_lets_the_server_go_on(stack):
    stack.process = stack.command("demo", "--keep")
    wait_for(lambda: "The server goes on" in stack.output(), 90, "the demo's end")
    assert requests.get(f"{stack.url}/livez", timeout=60).ok
    assert stack.stop() in (0, -15)
