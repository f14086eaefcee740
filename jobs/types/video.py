"""Transcode a video to HLS: renditions one after another, a master playlist over them, and a poster.

All files of a video are one artifact folder `hls`: `index.m3u8` (master), `poster.jpg`, and for each rendition
`playlists/720p/index.m3u8` with its segments. The rendition `audio` is the sound alone.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from marshmallow import ValidationError, fields, validate

from jobs import Context, Problem, job_type
from jobs.types import ffmpeg, hls

SIDES = {"2160p": 2160, "1440p": 1440, "1080p": 1080, "720p": 720, "480p": 480, "360p": 360, "240p": 240}
SOUND = "audio"
POSTER_SIDE = 720


class _OnceEach(fields.List):
    """A list in which nothing stands twice; each place with a fault is named, whatever its fault is."""

    def _deserialize(self, value, attr, data, **kwargs):
        faults: dict[int, list[str]] = {}
        try:
            loaded = super()._deserialize(value, attr, data, **kwargs)
        except ValidationError as error:
            if not isinstance(error.messages, dict):
                raise
            faults = error.messages
        for place, name in enumerate(value):
            if place not in faults and name in value[:place]:
                faults[place] = ValidationError(f"{name} stands here already.").messages
        if faults:
            raise ValidationError(faults)
        return loaded


PAYLOAD = {
    "sourceUrl": fields.Str(required=True, metadata={
        "input": True, "title": "Video", "description": "The url that POST /v1/files answered, or an http(s) address."}),
    "transcode": _OnceEach(
        fields.Str(validate=validate.OneOf([*SIDES, SOUND], labels=[*[""] * len(SIDES), "Sound only"])), required=True, validate=validate.Length(min=1),
        metadata={"title": "Renditions", "uniqueItems": True,
                  "description": "Named by the length of the shorter side; audio is the sound. Nothing is enlarged."}),
    "mp4": fields.Bool(truthy={True}, falsy={False}, metadata={
        "title": "MP4 too", "description": "Also leave each rendition as one MP4 file, the sound as M4A."}),
}


# One at a time: ffmpeg uses all cores, so that a second would slow both, and a worker stays free for other work.
@job_type("video.transcode", title="Transcode a video", collection="videos", payload=PAYLOAD, concurrency=1,
          resource=lambda payload: {"sourceUrl": payload["sourceUrl"]})
def transcode_video(job: Context, sourceUrl: str, transcode: list[str], mp4: bool = False):
    """Make HLS renditions of a video, each by a process of its own, so that one may fail without the others."""
    program = ffmpeg.binary(job.settings)
    job.stage("reading the source")
    source = _examine(job, program, job.open_input(sourceUrl), transcode)
    with job.artifact_folder("hls") as folder:
        made = Transcoder(job, program, source, folder / "playlists").make(transcode)
        (folder / "index.m3u8").write_text(
            hls.master({f"playlists/{name}/index.m3u8": one for name, one in made.items()}), "utf-8")
        if mp4:
            for name, one in made.items():
                job.stage(f"joining {name}")
                job.run_process(ffmpeg.join(program, _whole(name)), cwd=one.folder, log=False)
        job.stage("making the poster")
        poster = _poster(job, program, source, made, folder / "poster.jpg")
    playlists = [{"name": name, "href": f"{job.resource}/playlists/{name}", "width": one.width, "height": one.height,
                  "bandwidth": one.bandwidth, "duration": round(one.duration, 3)}
                 | ({"mp4": f"{job.resource}/playlists/{name}/{_whole(name)}"} if mp4 else {})
                 for name, one in made.items()]
    job.describe(playlists=playlists, poster=f"{job.resource}/poster.jpg" if poster else None,
                 warnings=_warnings(source, made, poster))
    return {"created": [playlist["href"] for playlist in playlists]}


def _whole(name: str) -> str:
    """The name of the file that holds a rendition in one piece."""
    return f"{name}.m4a" if name == SOUND else f"{name}.mp4"


def _examine(job: Context, program: str, path: Path, names: list[str]) -> ffmpeg.Source:
    """What the source holds. Problem `source-codec-unsupported` when nothing of what is wanted can be made of it."""
    source = ffmpeg.Source(path)
    job.run_process(ffmpeg.describe(program, path), on_line=source.feed, check=False, log=False)
    lacking = [_lacks(source, name) for name in names]
    if all(lacking):
        found = "; ".join(source.found[:10]) or ffmpeg.guess(path)
        raise Problem("source-codec-unsupported",
                      f"The source has {' and '.join(dict.fromkeys(lacking))}. Found: {found}.")
    if not source.duration:
        job.run_process(ffmpeg.measure(program, source), on_line=source.time, check=False, log=False)
    length = f"{source.duration:.3f} s" if source.duration else "of unknown length"
    size = f"{source.picture.width}×{source.picture.height}" if source.picture else "no picture"
    job.log(f"source: {'; '.join(source.found)}; {size}, {length}")
    return source


def _lacks(source: ffmpeg.Source, name: str) -> str | None:
    """What the source lacks to make this rendition of it."""
    if name == SOUND:
        return "no audio stream that can be decoded" if source.sound is None else None
    return "no video stream that can be decoded" if source.picture is None else None


class Unmade(Exception):
    """A rendition could not be made; the others may be."""


class Killed(Unmade):
    """ffmpeg was killed, often for lack of memory"""


class Transcoder:
    """Makes renditions of one source, each in a folder of its own name."""

    def __init__(self, job: Context, program: str, source: ffmpeg.Source, folder: Path):
        self.job, self.program, self.source, self.folder = job, program, source, folder
        self.made: dict[str, hls.Rendition] = {}

    def make(self, names: list[str]) -> dict[str, hls.Rendition]:
        """The renditions that could be made; the others are skipped. Problem, or ChildProcessError, when none could."""
        failed: dict[str, Unmade] = {}
        for place, name in enumerate(names):
            self.job.progress(place, len(names), stage=f"encoding {name}")
            try:
                self.made[name] = one = self._rendition(name, place, len(names))
            except Unmade as error:
                failed[name] = error
                shutil.rmtree(self.folder / name, ignore_errors=True)
                self.job.log(f"{name}: {error}")
            else:
                self.job.log(f"{name}: {one.width}×{one.height}, {one.duration:.3f} s, segments: {len(one.segments)}")
        if not self.made and any(isinstance(error, Killed) for error in failed.values()):
            raise ChildProcessError(Killed.__doc__)      # not the source's fault: worth another attempt
        if not self.made:
            raise Problem("source-codec-unsupported", f"No rendition could be made: {failed[names[0]]}.", errors=[
                {"pointer": f"#/payload/transcode/{at}", "detail": str(failed[name])} for at, name in enumerate(names)])
        for name, error in failed.items():
            self.job.skip(name, str(error))
        return self.made

    def _rendition(self, name: str, place: int, total: int) -> hls.Rendition:
        if lack := _lacks(self.source, name):
            raise Unmade(f"the source has {lack}")
        width, height = self.source.picture.fit(SIDES[name]) if name != SOUND else (None, None)
        folder = self.folder / name
        folder.mkdir(parents=True)
        twin = next((one for one in self.made.values() if (one.width, one.height) == (width, height)), None)
        complaint = ""

        def progress(line: str) -> None:
            position, length = ffmpeg.seconds(line), self.source.duration
            if position is not None and length:
                self.job.progress(place + min(1.0, position / length), total, stage=f"encoding {name}")

        if twin:    # both are as large as the source: a second encoding would only repeat the first
            shutil.copytree(twin.folder, folder, dirs_exist_ok=True)
        else:
            argv = (ffmpeg.encode_sound(self.program, self.source) if name == SOUND
                    else ffmpeg.encode(self.program, self.source, width, height))
            complaint = self._encode(argv, folder, progress)
        one = hls.read(folder, width, height, sound=self.source.sound is not None)
        if one is None:
            raise Unmade("nothing in the source could be decoded" + (f" ({complaint})" if complaint else ""))
        if complaint:
            raise Unmade(complaint)
        return one

    def _encode(self, argv: list[str], folder: Path, progress: Callable[[str], None]) -> str:
        """Run ffmpeg; what it complained of when it failed, else "". OSError when the disk is full."""
        done = self.job.run_process(argv, cwd=folder, on_line=progress, check=False, log=False)
        if "No space left on device" in done.stderr_tail:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if done.returncode < 0:
            raise Killed(Killed.__doc__)
        return ffmpeg.complaint(done.stderr_tail, self.source.path) if done.returncode else ""


def _warnings(source: ffmpeg.Source, made: dict[str, hls.Rendition], poster: bool) -> list[str]:
    """What a person should know of renditions that were made, but differ from what was to be expected."""
    picture, length = source.picture, source.duration or 0
    warnings = []
    if small := [name for name in made if name != SOUND and SIDES[name] > min(picture.width, picture.height)]:
        one = made[small[0]]
        warnings.append(f"{', '.join(small)}: no larger than the source, {one.width}×{one.height}.")
    if off := [name for name, one in made.items() if length and abs(one.duration - length) > max(1, length * 0.05)]:
        warnings.append(f"{', '.join(off)}: {made[off[0]].duration:.1f} s long, but the source says {length:.1f} s; "
                        "it may be damaged or cut short.")
    if not poster and made.keys() != {SOUND}:
        warnings.append("No poster could be made.")
    return warnings


def _poster(job: Context, program: str, source: ffmpeg.Source, made: dict[str, hls.Rendition], target: Path) -> bool:
    """Write the poster; whether there is one.

    It comes from a made rendition, which is sound, upright and of a fitting size; of sound alone the attached picture.
    """
    pictured = [one for one in made.values() if one.width]
    if pictured:
        one = min(pictured, key=lambda one: abs(min(one.width, one.height) - POSTER_SIDE))
        segment = one.segments[len(one.segments) // 10]      # not the very beginning, which is often black
        job.run_process(ffmpeg.poster(program, segment, target), check=False, log=False)
    elif source.cover is not None:
        job.run_process(ffmpeg.cover(program, source, target), check=False, log=False)
    return target.exists()
