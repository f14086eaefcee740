"""Transcode a video to HLS: renditions one after another, a master playlist over them, and a poster.

All files of a video are one artifact folder `hls`: `index.m3u8` (master), `poster.jpg`, and for each rendition
`playlists/720p/index.m3u8` with its segments.
"""

import errno
import os
import shutil
from pathlib import Path

from jobs import Context, Problem, fields, job_type, validate
from jobs.types import ffmpeg, hls

SIDES = {"2160p": 2160, "1440p": 1440, "1080p": 1080, "720p": 720, "480p": 480, "360p": 360, "240p": 240}
POSTER_SIDE = 720


def _once_each(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise validate.ValidationError(f"Named more than once: {', '.join(twice)}.")


@job_type("video.transcode", collection="videos", title="Transcode a video",
          payload={"sourceUrl": fields.Str(required=True, metadata={"input": True, "description":
                       "The url that POST /v1/files answered, or an http(s) address."}),
                   "transcode": fields.List(fields.Str(validate=validate.OneOf(list(SIDES))), required=True,
                       validate=[validate.Length(min=1), _once_each], metadata={"uniqueItems": True, "description":
                       "The renditions to make, by the length of their shorter side. None is enlarged."})},
          resource=lambda payload: {"sourceUrl": payload["sourceUrl"]})
def transcode_video(job: Context, sourceUrl: str, transcode: list[str]):
    """Make HLS renditions of a video, each by a process of its own, so that one may fail without the others."""
    program = ffmpeg.binary(job.settings)
    job.progress(0, stage="reading the source")
    source = _examine(job, program, job.open_input(sourceUrl))
    warnings: list[str] = []
    with job.artifact_folder("hls") as folder:
        made = _renditions(job, program, source, folder, transcode, warnings)
        (folder / "index.m3u8").write_text(
            hls.master({f"playlists/{name}/index.m3u8": one for name, one in made.items()}), "utf-8")
        job.progress(99, 100, stage="making the poster")
        poster = _poster(job, program, made, folder / "poster.jpg", warnings)
    playlists = [{"name": name, "href": f"{job.resource}/playlists/{name}", "width": one.width, "height": one.height,
                  "bandwidth": one.bandwidth, "duration": round(one.duration, 3)} for name, one in made.items()]
    job.describe(playlists=playlists, poster=f"{job.resource}/poster.jpg" if poster else None, warnings=warnings)
    return {"created": [playlist["href"] for playlist in playlists]}


def _examine(job: Context, program: str, path: Path) -> ffmpeg.Source:
    """What the source holds. Problem `source-codec-unsupported` when it has no picture that can be decoded."""
    source, lines = ffmpeg.Source(path), []

    def read(line: str) -> None:
        source.feed(line)
        lines[:] = [*lines[-20:], line]

    job.run_process(ffmpeg.describe(program, path), on_line=read, check=False, log=False)
    if source.picture is None:
        if not path.stat().st_size:
            found = "The source is empty."
        elif source.found:
            found = f"The source has no video stream that can be decoded. Found: {'; '.join(source.found[:10])}."
        else:
            found = f"The source is not a video file that can be read: {ffmpeg.complaint(chr(10).join(lines), path)}."
        raise Problem("source-codec-unsupported", found)
    if source.duration is None:
        job.run_process(ffmpeg.measure(program, source), on_line=source.time, check=False, log=False)
    job.log(f"source: {'; '.join(source.found)}; {source.picture.width}×{source.picture.height}, {source.duration} s")
    return source


def _renditions(job: Context, program: str, source: ffmpeg.Source, folder: Path, names: list[str],
                warnings: list[str]) -> dict[str, hls.Rendition]:
    """Make each rendition in `playlists/{name}`. Problem when none could be made; the failed ones are skipped."""
    made: dict[str, hls.Rendition] = {}
    failed: dict[str, str] = {}
    for place, name in enumerate(names):
        target = folder / "playlists" / name
        target.mkdir(parents=True)
        width, height = source.picture.fit(SIDES[name])
        if SIDES[name] > min(source.picture.width, source.picture.height):
            warnings.append(f"{name} is {width}×{height}: the source is no larger.")

        def progress(line: str, place=place, name=name) -> None:
            if (position := ffmpeg.seconds(line)) is not None and source.duration:
                done = place + min(1.0, position / source.duration)
                job.progress(done, len(names), stage=f"encoding {name}")

        job.stage(f"encoding {name}")
        twin = next((one for one in made.values() if (one.width, one.height) == (width, height)), None)
        if twin:
            shutil.copytree(twin.folder, target, dirs_exist_ok=True)
            reason = ""
        else:
            reason = _encode(job, ffmpeg.encode(program, source, width, height), target, source, progress)
        one = hls.read(target, width, height, sound=source.sound is not None)
        if reason or one is None:
            failed[name] = reason or "Nothing in the source could be decoded."
            shutil.rmtree(target)
            continue
        made[name] = one
        job.log(f"{name}: {width}×{height}, {one.duration:.3f} s in {len(one.segments)} segments")
        if source.duration and abs(one.duration - source.duration) > max(1, source.duration * 0.05):
            warnings.append(f"{name} lasts {one.duration:.1f} s, but the source says {source.duration:.1f} s: "
                            "it may be damaged or cut short.")
    if not made:
        raise Problem("source-codec-unsupported", f"No rendition could be made. {next(iter(failed.values()))}", errors=[
            {"pointer": f"#/payload/transcode/{names.index(name)}", "detail": f"{name}: {reason}"}
            for name, reason in failed.items()])
    for name, reason in failed.items():
        job.skip(name, reason)
    return made


def _encode(job: Context, argv: list[str], folder: Path, source: ffmpeg.Source, progress) -> str:
    """Run one ffmpeg in `folder`; why it failed, or "". A full disk is not the rendition's fault, and raises OSError."""
    done = job.run_process(argv, cwd=folder, on_line=progress, check=False, log=False)
    if "No space left on device" in done.stderr_tail:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode < 0:
        return f"ffmpeg was killed by signal {-done.returncode}, often for lack of memory."
    return ffmpeg.complaint(done.stderr_tail, source.path) + "." if done.returncode else ""


def _poster(job: Context, program: str, made: dict[str, hls.Rendition], target: Path, warnings: list[str]) -> bool:
    """Write the poster from a made rendition: it is sound, upright and of a fitting size."""
    one = min(made.values(), key=lambda one: abs(min(one.width, one.height) - POSTER_SIDE))
    segment = one.segments[len(one.segments) // 10]      # not the very beginning, which is often black
    job.run_process(ffmpeg.poster(program, segment, target), check=False, log=False)
    if not target.exists():
        warnings.append("No poster could be made.")
    return target.exists()
