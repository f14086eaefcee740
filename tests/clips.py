"""Small video files of every troublesome kind, made on the spot with the bundled ffmpeg."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest

FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
X264 = "-c:v libx264 -preset ultrafast"


def picture(size: str, seconds: float, rate: str = "25") -> str:
    """The arguments of a moving test picture."""
    return f"-f lavfi -i testsrc2=s={size}:r={rate}:d={seconds}"


RECIPES = {
    "plain.mp4": f"{picture('640x360', 3)} -f lavfi -i sine=d=3 {X264} -c:a aac",
    "mute.mp4": f"{picture('320x180', 2)} {X264}",
    "odd.mkv": f"-f lavfi -i testsrc=s=161x91:r=25:d=2 {X264} -pix_fmt yuv444p",
    "long.mp4": f"{picture('320x180', 20)} -f lavfi -i sine=d=20 {X264} -c:a aac -movflags +faststart",
    "audio.mka": "-f lavfi -i sine=d=2 -c:a libopus",
    "audio.mp3": "-f lavfi -i sine=d=2 -c:a libmp3lame",
    "cover.jpg": f"{picture('64x64', 1, '1')} -frames:v 1",
    # 1 to 40 ms between frames, in a container that then announces 1000 frames a second
    "vfr.mkv": f"-f lavfi -i testsrc2=s=160x90:r=1000:d=4 -vf select='gt(random(0)\\,0.97)' -fps_mode vfr "
               f"-enc_time_base 1:1000 {X264}",
    "vfr.mp4": f"{picture('160x90', 4)} -vf select='not(mod(n\\,7))+lt(t\\,1)' -fps_mode vfr {X264}",
    "slides.mp4": f"{picture('160x90', 10)} -vf select='not(mod(n\\,50))' -fps_mode vfr {X264}",
    "fast.mp4": f"{picture('160x90', 2, '120')} {X264}",
    "ntsc.mp4": f"{picture('160x90', 4, '30000/1001')} {X264}",
    "anamorphic.mp4": f"{picture('180x144', 2)} -vf setsar=16/15 {X264}",
    "interlaced.ts": f"{picture('180x144', 2, '50')} -vf interlace -c:v mpeg2video -flags +ildct+ilme",
    "prores.mov": f"{picture('160x90', 2)} -c:v prores_ks",
    "hevc.mp4": f"{picture('160x90', 2)} -c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le",
    "hdr.mp4": f"{picture('160x90', 2)} -c:v libx265 -pix_fmt yuv420p10le -x265-params "
               "log-level=none:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc",
    "longer-sound.mp4": f"{picture('160x90', 2)} -f lavfi -i sine=d=3 {X264} -c:a aac",
}


def make(name: str, folder: Path) -> Path:
    """Make a clip of RECIPES, or one of those below, in `folder`, if it is not there already."""
    path = folder / name
    if path.exists():
        return path
    if name in RECIPES:
        return make_clip(*RECIPES[name].split(), into=path)
    if name == "rotated.mp4":        # 90° anticlockwise: 640×360 to be shown as 360×640
        return make_clip("-display_rotation", "90", "-i", make("plain.mp4", folder), "-c", "copy", into=path)
    if name == "reel.mp4":           # 30 s
        return make_clip("-stream_loop", "9", "-i", make("plain.mp4", folder), "-c", "copy", into=path)
    if name == "epic.mp4":           # 10 minutes
        return make_clip("-stream_loop", "199", "-i", make("plain.mp4", folder), "-c", "copy", into=path)
    if name == "covered.mp4":        # a film with its cover, which comes first
        return make_clip("-i", make("mute.mp4", folder), "-i", make("cover.jpg", folder), "-map", "1:v", "-map", "0:v",
                         "-c", "copy", "-disposition:v:0", "attached_pic", into=path)
    if name == "cover.mp3":
        return make_clip("-i", make("audio.mp3", folder), "-i", make("cover.jpg", folder), "-map", "0:a", "-map", "1:v",
                      "-c", "copy", "-disposition:v", "attached_pic", into=path)
    if name == "cover.m4a":
        return make_clip("-i", make("audio.mp3", folder), "-i", make("cover.jpg", folder), "-map", "0:a", "-map", "1:v",
                      "-c:a", "aac", "-c:v", "copy", "-disposition:v", "attached_pic", into=path)
    if name == "endless.webm":       # written to a pipe: no duration, as browsers record
        line = [FFMPEG, "-v", "error", *picture("160x90", 2).split(), "-c:v", "libvpx", "-f", "webm", "-"]
        path.write_bytes(subprocess.run(line, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout)
    elif name == "cut-index-first.mp4":
        whole = make("long.mp4", folder).read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
    elif name == "cut-index-last.mp4":
        whole = make("plain.mp4", folder).read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
    elif name == "hollow.mp4":       # the index is whole, and of the pictures nothing is left
        whole = make("long.mp4", folder).read_bytes()
        path.write_bytes(whole[:whole.index(b"mdat") + 4])
    elif name == "zero.mp4":
        path.touch()
    elif name == "text.mp4":
        path.write_text("hello\n" * 100)
    elif name.startswith("playlist."):
        path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{make('plain.mp4', folder)}\n#EXT-X-ENDLIST\n")
    elif name.startswith("concat."):
        path.write_text(f"ffconcat version 1.0\nfile '{make('plain.mp4', folder)}'\n")
    else:
        raise LookupError(name)
    return path


def make_clip(*arguments, into: Path) -> Path:
    """Run ffmpeg on arguments that end before the output's name; the output's path."""
    subprocess.run([FFMPEG, "-nostdin", "-v", "error", "-y", *map(str, arguments), str(into)], check=True)
    return into


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """`clip("rotated.mp4")` gives the path of that clip."""
    folder = tmp_path_factory.mktemp("clips")
    return lambda name: make(name, folder)
