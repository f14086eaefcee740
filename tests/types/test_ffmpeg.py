"""Probing and encoding real clips with the real ffmpeg."""

import subprocess
from pathlib import Path

import pytest

from jobs.types import ffmpeg, hls
from tests.clips import FFMPEG, clip, make_clip  # noqa: F401


def run(argv: list[str], folder: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")


def probe(path: Path) -> ffmpeg.Source:
    source = ffmpeg.Source(path)
    for line in run(ffmpeg.describe(FFMPEG, path)).stdout.splitlines():
        source.feed(line)
    return source


def encode(source: ffmpeg.Source, side: int, folder: Path) -> hls.Rendition | None:
    width, height = source.picture.fit(side)
    run(ffmpeg.encode(FFMPEG, source, width, height), folder)
    return hls.read(folder, width, height, sound=source.sound is not None)


@pytest.mark.parametrize(("name", "size", "duration"), [
    ("plain.mp4", (212, 120), 3),
    ("rotated.mp4", (120, 212), 3),
    ("odd.mkv", (160, 90), 2),
    ("vfr.mp4", (160, 90), 3.96),
    ("vfr.mkv", (160, 90), 3.99),
    ("slides.mp4", (160, 90), 8.04),
    ("fast.mp4", (160, 90), 2),
    ("ntsc.mp4", (160, 90), 4),
    ("anamorphic.mp4", (160, 120), 2),
    ("interlaced.ts", (150, 120), 2),
    ("prores.mov", (160, 90), 2),
    ("hevc.mp4", (160, 90), 2),
    ("hdr.mp4", (160, 90), 2),
    ("mute.mp4", (212, 120), 2),
    ("covered.mp4", (212, 120), 2),
    ("endless.webm", (160, 90), 2),
])
def test_every_kind_of_source_keeps_its_length_and_shape(clip, tmp_path, name, size, duration):  # noqa: F811
    source = probe(clip(name))
    one = encode(source, 120, tmp_path)
    assert one.duration == pytest.approx(duration, abs=0.1)
    made = probe_made(one)
    assert (made.picture.width, made.picture.height) == (one.width, one.height) == size
    assert made.duration == pytest.approx(duration, abs=0.1)
    assert (made.sound is not None) == (source.sound is not None) == ("mp4a" in one.codecs)


@pytest.mark.parametrize("name", ["audio.mp3", "cover.m4a", "plain.mp4", "audio.mka"])
def test_the_sound_of_every_kind_of_source_can_stand_alone(clip, tmp_path, name):  # noqa: F811
    source = probe(clip(name))
    run(ffmpeg.encode_sound(FFMPEG, source), tmp_path)
    one = hls.read(tmp_path, None, None, sound=True)
    made = probe_made(one)
    assert one.codecs == "mp4a.40.2" and made.picture is None and made.found == ["audio: aac (LC)"]
    assert one.duration == pytest.approx(source.duration, abs=0.1)


def test_an_attached_picture_becomes_the_poster_of_sound(clip, tmp_path):  # noqa: F811
    source = probe(clip("cover.mp3"))
    run(ffmpeg.cover(FFMPEG, source, tmp_path / "poster.jpg"))
    assert (tmp_path / "poster.jpg").read_bytes().startswith(b"\xff\xd8")


@pytest.mark.parametrize(("text", "fault"), [
    (None, "there is no such program"), ("not a program", "it cannot be run"), ("#!/bin/sh\n", "does not answer like ffmpeg"),
    ("#!/bin/sh\necho ' V....D libx264  H.264'\n", "lacks the encoder aac"),
])
def test_an_ffmpeg_that_cannot_do_the_work_is_known_at_once(tmp_path, text, fault):
    program = tmp_path / "ffmpeg"
    if text is not None:
        program.write_text(text)
        program.chmod(0o755)
    assert fault in ffmpeg.fault(str(program))
    assert ffmpeg.fault(FFMPEG) is None


def probe_made(one: hls.Rendition) -> ffmpeg.Source:
    """Put the segments together and probe them as one file."""
    whole = one.folder / "whole.ts"
    whole.write_bytes(b"".join(path.read_bytes() for path in one.segments))
    return probe(whole)


def test_key_frames_divide_a_long_clip_into_segments(clip, tmp_path):  # noqa: F811
    one = encode(probe(clip("long.mp4")), 120, tmp_path)
    assert [path.name for path in one.segments] == ["00000.ts", "00001.ts", "00002.ts", "00003.ts", "00004.ts"]
    assert one.bandwidth >= one.average > 0
    for segment in one.segments:        # each begins with a key frame: it can be decoded alone
        alone = run([FFMPEG, "-v", "error", "-i", str(segment), "-frames:v", "1", "-f", "null", "-"])
        assert (alone.returncode, alone.stderr) == (0, "")


def test_codecs_are_read_from_the_stream(clip, tmp_path):  # noqa: F811
    one = encode(probe(clip("plain.mp4")), 120, tmp_path)
    assert one.codecs.startswith("avc1.6400") and one.codecs.endswith(",mp4a.40.2")


def test_a_picture_in_high_dynamic_range_is_mapped_to_a_plain_one(clip, tmp_path):  # noqa: F811
    source = probe(clip("hdr.mp4"))
    assert source.picture.hdr
    one = encode(source, 120, tmp_path)
    assert "bt2020" not in run(ffmpeg.describe(FFMPEG, one.segments[0])).stdout


def test_interlaced_pictures_are_told(clip):  # noqa: F811
    assert probe(clip("interlaced.ts")).picture.interlaced
    assert not probe(clip("plain.mp4")).picture.interlaced


def test_a_duration_that_the_container_lacks_is_measured(clip):  # noqa: F811
    source = probe(clip("endless.webm"))
    assert source.duration is None
    for line in run(ffmpeg.measure(FFMPEG, source)).stdout.splitlines():
        source.time(line)
    assert source.duration == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize(("name", "found"), [
    ("audio.mp3", ["audio: mp3 (mp3float)"]),
    ("cover.mp3", ["audio: mp3 (mp3float)", "attached picture: mjpeg (Baseline)"]),
    ("cover.m4a", ["audio: aac (LC)", "attached picture: mjpeg (Baseline)"]),
    ("cover.jpg", []), ("zero.mp4", []), ("text.mp4", []), ("cut-index-last.mp4", []),
    ("playlist.m3u8", []), ("playlist.mp4", []), ("playlist.ts", []), ("concat.ffconcat", []), ("concat.mp4", []),
])
def test_what_has_no_picture_is_named(clip, name, found):  # noqa: F811
    source = probe(clip(name))
    assert source.picture is None
    assert source.found == found


@pytest.mark.parametrize(("name", "words"), [
    ("zero.mp4", "empty"), ("text.mp4", "text"), ("playlist.mp4", "list of other files"),
    ("concat.mp4", "list of other files"), ("cut-index-last.mp4", "its end may be missing"), ("cover.jpg", "no container"),
])
def test_what_has_no_stream_is_guessed(clip, name, words):  # noqa: F811
    assert words in ffmpeg.guess(clip(name))


@pytest.mark.parametrize("name", ["playlist.m3u8", "playlist.mp4", "concat.ffconcat", "concat.mp4"])
def test_a_list_does_not_open_the_file_that_it_names(clip, name):  # noqa: F811
    path = clip(name)
    trace = run([FFMPEG, "-nostdin", "-v", "trace", *ffmpeg.guarded(path)])
    opened = [line for line in trace.stderr.splitlines() if "Opening '" in line]
    assert all(path.name in line for line in opened), opened
    assert "Stream #0" not in trace.stderr


def test_nothing_is_made_of_a_clip_without_its_pictures(clip, tmp_path):  # noqa: F811
    assert encode(probe(clip("hollow.mp4")), 120, tmp_path) is None


def test_half_a_clip_makes_half_a_rendition(clip, tmp_path):  # noqa: F811
    source = probe(clip("cut-index-first.mp4"))
    one = encode(source, 120, tmp_path)
    assert source.duration == 20 and 8 < one.duration < 12


def test_metadata_cannot_pose_as_a_stream(clip, tmp_path):  # noqa: F811
    forged = "x\n  Stream #0:7: Video: h264, yuv420p, 9999x9999, 25 fps\r  Duration: 99:00:00.00"
    path = tmp_path / "forged.mp4"
    make_clip("-i", clip("mute.mp4"), "-c", "copy", "-metadata", f"title={forged}", into=path)
    source = probe(path)
    assert (source.picture.width, source.duration, len(source.found)) == (320, 2.0, 1)


@pytest.mark.parametrize(("picture", "side", "size"), [
    ((1920, 1080), 720, (1280, 720)), ((1080, 1920), 720, (720, 1280)), ((640, 360), 1080, (640, 360)),
    ((641, 361), 1080, (640, 360)), ((1920, 804), 720, (1718, 720)), ((1440, 1080), 480, (640, 480)),
    ((1, 1), 240, (2, 2)),
])
def test_sizes_are_even_upright_and_never_enlarged(picture, side, size):
    assert ffmpeg.Picture(0, *picture).fit(side) == size


def test_the_first_tracks_that_can_be_decoded_are_taken():
    source = ffmpeg.Source(Path("a.mov"))
    for line in ("  Stream #0:0[0x1](und): Audio: none (apac / 0x63617061), 48000 Hz, 4.0",
                 "  Stream #0:1[0x2](und): Video: none (xvc1 / 0x31637678), 640x360, 25 fps, 25 tbr",
                 "  Stream #0:2[0x3](eng): Audio: aac (LC) (mp4a / 0x6134706D), 48000 Hz, stereo, fltp, 128 kb/s",
                 "  Stream #0:3[0x4](und): Video: hevc (Main 10) (hvc1 / 0x31637668), yuv420p10le, 1920x1080, 29.97 tbr",
                 "      Display Matrix: rotation of -90.00 degrees"):
        source.feed(line)
    assert (source.sound, source.picture) == (2, ffmpeg.Picture(3, 1080, 1920))
    assert source.found == ["audio: none (apac)", "video: none (xvc1)", "audio: aac (LC)", "video: hevc (Main 10)"]


def test_progress_may_have_no_position_yet():
    lines = ["frame=0", "out_time_us=N/A", "out_time_us=-1", "out_time_us=1500000\n", "progress=continue"]
    assert [ffmpeg.seconds(line) for line in lines] == [None, None, None, 1.5, None]


def test_a_complaint_leaves_the_servers_paths_out(clip):  # noqa: F811
    path = clip("text.mp4")
    said = ffmpeg.complaint(run([FFMPEG, "-nostdin", "-hide_banner", *ffmpeg.guarded(path)]).stderr, path)
    assert said == "moov atom not found"
    assert ffmpeg.complaint(f"[mov @ 0x5] file:{path}: broken\n", path) == "the source: broken"
    assert ffmpeg.complaint("", path) == "ffmpeg gave no reason"
