"""`./run demo`: a video goes through the whole server while you watch."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import quote

import requests

from jobs import leash
from jobs import settings as settings_of
from jobs.data_folder import tenant
from jobs.settings import Settings

RENDITIONS = ["720p", "480p"]
_PATIENCE = 60      # seconds for the server to come up, and for a cut stream to come back


class DemoFailed(Exception):
    """The demo did not get through; the message says why."""


def run(file: Path | None, keep: bool) -> int:
    """Transcode `file`, relative to where the caller stood, or a clip made here.

    0; 1 with the reason on stderr; or 2 when there is no such file.
    """
    settings = settings_of.load()
    if file is not None:
        file = Path(os.environ.get("CALLED_FROM", "."), file)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")        # a terminal that cannot show a bar shows question marks
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # on the way out the server is stopped
    if file is not None and not file.is_file():
        print(f"There is no file {file}.", file=sys.stderr)
        return 2
    own, log = None, None
    try:
        if running(settings) is None:
            log = None if keep else tempfile.TemporaryFile()
            own = _start(log)
        elif keep:
            print("The server runs already, and goes on.")
        _play(settings, _base(settings, own), file)
        if own and not keep:
            print("The demo's server stops now. ./run shows what it made; with --keep it goes on by itself.", flush=True)
        if own and keep:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            print("\nThe server goes on. Ctrl-C stops it.", flush=True)
            return own.wait()
        return 0
    except DemoFailed as error:
        _explain(str(error), log)
        return 1
    except requests.RequestException as error:
        _explain(f"the server cannot be reached ({error}).", log)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if own and own.poll() is None:
            own.send_signal(signal.SIGTERM)
            own.wait()


def running(settings: Settings) -> str | None:
    """The URL of the server that uses this data folder now, if one does."""
    found = tenant(settings.data_dir)
    with contextlib.suppress(requests.RequestException):
        if found and requests.get(f"{found['url']}/livez", timeout=5).ok:
            return found["url"]
    return None


def _start(log: IO[bytes] | None) -> subprocess.Popen:
    """Start the server as a child that dies with us. It speaks to `log`, or to the terminal if there is none."""
    print("Starting the server …", flush=True)
    return subprocess.Popen([sys.executable, "-m", "jobs.cli", "start"], start_new_session=True,
                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                            preexec_fn=partial(leash.tie_to_parent, os.getpid()))


def _explain(reason: str, log: IO[bytes] | None) -> None:
    """Say why the demo failed, after the last lines of a server of its own."""
    if log:
        log.seek(0)
        for line in log.read().decode(errors="replace").splitlines()[-20:]:
            print(f"    {line}", file=sys.stderr)
    print(f"The demo failed: {reason}", file=sys.stderr)


def _base(settings: Settings, own: subprocess.Popen | None) -> str:
    """The URL of the server, once it is up."""
    deadline = time.monotonic() + _PATIENCE
    while (base := running(settings)) is None:
        if own and own.poll() is not None:
            raise DemoFailed(f"the server ended with exit code {own.returncode}; its reason is above.")
        if time.monotonic() > deadline:
            raise DemoFailed(f"the server did not come up within {_PATIENCE} s.")
        time.sleep(0.05)
    return base


def _play(settings: Settings, base: str, file: Path | None) -> None:
    http = requests.Session()
    key = settings.admin_key or (settings.data_dir / "admin.key").read_text().strip()
    http.headers["Authorization"] = f"Bearer {key}"
    with contextlib.ExitStack() as stack:
        if file is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="accepted-demo-"))
            file = _make_clip(settings, Path(folder))
        print(f"Uploading {file.name} ({file.stat().st_size / 1e6:.1f} MB) …", flush=True)
        upload = _answer(http.post(
            f"{base}/v1/files", data=stack.enter_context(file.open("rb")), params={"name": file.name},
            headers={"Content-Type": "application/octet-stream"}, timeout=None))
    video = http.post(f"{base}/v1/videos", json={"sourceUrl": upload["url"], "transcode": RENDITIONS}, timeout=60)
    _answer(video)
    public, _, id = video.headers["Location"].partition("/v1/jobs/")
    print(f"Accepted as job {id}: {video.headers['Location']}", flush=True)
    job = f"{base}/v1/jobs/{id}"
    end = _watch(http, job)
    error = end.get("error") or {}
    if end["status"] not in ("succeeded", "partialSuccess"):
        reason = error.get("detail") or error.get("title") or "no reason given"
        raise DemoFailed(f"the job ended {end['status']}: {reason}")
    resource = _answer(http.get(job, timeout=60))["resource"]
    print("Playlists, for players that send the key:")
    for playlist in _answer(http.get(base + resource, timeout=60))["playlists"]:
        print(f"  {playlist['name']:>6}  {public}{quote(playlist['href'])}/index.m3u8")
    if end["status"] == "partialSuccess":
        missing = "; ".join(part.get("detail", "") for part in error.get("errors", ()))
        raise DemoFailed(f"some renditions are missing: {missing}")


def _make_clip(settings: Settings, folder: Path) -> Path:
    """A moving test picture with a tone, ten seconds long."""
    ffmpeg = settings.ffmpeg
    if not ffmpeg:
        import imageio_ffmpeg
        ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    clip = folder / "clip.mp4"
    print("Making a clip of ten seconds …", flush=True)
    done = subprocess.run(
        [ffmpeg, "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25:duration=10",
         "-f", "lavfi", "-i", "sine=frequency=440:duration=10", "-c:v", "libx264", "-preset", "ultrafast",
         "-pix_fmt", "yuv420p", "-c:a", "aac", "-y", clip], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise DemoFailed(f"{ffmpeg} could not make the clip: {done.stderr.strip()}")
    return clip


def _answer(response: requests.Response) -> dict:
    """The body of a good answer; DemoFailed otherwise."""
    _refuse_problem(response)
    return response.json()


def _refuse_problem(response: requests.Response) -> None:
    """DemoFailed with the problem's words, if the answer is one."""
    if response.ok:
        return
    try:
        problem = response.json()
    except requests.JSONDecodeError:
        raise DemoFailed(f"{response.request.method} {response.url} answered {response.status_code}.") from None
    reasons = "; ".join(f"{error.get('pointer', '')} {error.get('detail', '')}" for error in problem.get("errors", ()))
    raise DemoFailed(f"{response.status_code} {problem.get('detail') or problem.get('title')} {reasons}".strip())


def _watch(http: requests.Session, job: str) -> dict:
    """Show the progress until the job is terminal; its last state."""
    with _Bar() as bar:
        for event, state in _events(http, job):
            bar.show(state)
            if event == "done":
                return state
    return _answer(http.get(job, timeout=60))       # the stream says that its end was seen before


def _events(http: requests.Session, job: str) -> Iterator[tuple[str, dict]]:
    """(event, data) of the job's stream. A cut is mended by resuming after the last id, while there is hope."""
    last_id, deadline, fault = None, time.monotonic() + _PATIENCE, "no answer"
    while time.monotonic() < deadline:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        try:
            with http.get(f"{job}/events", headers=headers, stream=True, timeout=(5, _PATIENCE)) as stream:
                if stream.status_code == 204:
                    return
                if stream.status_code < 500:
                    _refuse_problem(stream)
                    for frame in _frames(stream):
                        last_id, deadline = frame.get("id", last_id), time.monotonic() + _PATIENCE
                        if "data" in frame:
                            yield frame.get("event", "message"), json.loads(frame["data"])
                fault = f"status {stream.status_code}"
        except requests.RequestException as error:
            fault = str(error)
        time.sleep(0.5)
    raise DemoFailed(f"the stream of events was cut and did not come back ({fault}).")


def _frames(stream: requests.Response) -> Iterator[dict[str, str]]:
    """The fields of each frame of an event stream (HTML Living Standard, 9.2.6; one data line is all that we send)."""
    frame: dict[str, str] = {}
    for line in stream.iter_lines(chunk_size=1, decode_unicode=False):
        name, _, value = line.decode().partition(":")
        if line and name:
            frame[name] = frame[name] + "\n" + value.removeprefix(" ") if name in frame else value.removeprefix(" ")
        elif not line and frame:
            yield frame
            frame = {}


class _Bar:
    """A progress bar on a terminal; lines, one for each change, elsewhere."""

    def __init__(self, out: IO[str] = sys.stdout):
        self._out, self._shown = out, ""

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_) -> None:
        if self._out.isatty() and self._shown:
            print(file=self._out)

    def show(self, state: dict) -> None:
        """Draw `{"status", "progress", "stage"}` of a job."""
        percent, words = state.get("progress"), f"{state['status']} {state.get('stage') or ''}".strip()
        number = "  ? %" if percent is None else f"{percent:3d} %"
        if not self._out.isatty():
            text = f"  {number}  {words}"
            if text != self._shown:
                print(text, file=self._out, flush=True)
        else:
            columns = shutil.get_terminal_size().columns
            width = max(min(40, columns - 40), 10)
            full = round(width * (percent or 0) / 100)
            text = f"  [{'█' * full}{'·' * (width - full)}] {number}  {words}"[:columns - 1]
            print(f"\r{text}\033[K", end="", file=self._out, flush=True)
        self._shown = text
