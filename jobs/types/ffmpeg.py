"""What ffmpeg is told, and what is read from its answers: the command lines of video.transcode and the probe.

There is no ffprobe in the bundled build, so a source is described by the lines that `ffmpeg -i` writes. Real stream
lines are indented by exactly two spaces, and every line of a file's own metadata deeper: a title cannot pose as one.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

# Containers that cannot name another file. Playlists, concat scripts and image sequences are absent on purpose: they
# read whatever they name. The last four hold sound alone.
FORMATS = "mov,matroska,webm,avi,flv,asf,mpegts,mpeg,ogg,mp3,wav,flac,aac"
MAX_PIXELS = 2**26           # a frame of 8192×8192; a larger one is a bomb, or takes more memory than a worker should
RATES = range(10, 61)        # frames a second that are kept as they are
SEGMENT = 4                  # seconds
PEAKS = {240: 400, 360: 800, 480: 1400, 720: 2800, 1080: 5000, 1440: 9000, 2160: 16000}     # kbit/s, by shorter side

# What follows the choice of streams: nothing of the source's own metadata, and the segments.
_INTO_SEGMENTS = ["-map_metadata", "-1", "-map_chapters", "-1", "-f", "hls", "-hls_time", str(SEGMENT),
                  "-hls_playlist_type", "vod", "-hls_flags", "independent_segments",
                  "-hls_segment_filename", "%05d.ts", "index.m3u8"]
_DURATION = re.compile(r"^  Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
_STREAM = re.compile(r"^  Stream #0:(\d+)\S*: (\w+): (.+)")
_ROTATION = re.compile(r"^ {4,}display ?matrix: rotation of (-?[\d.]+) degrees", re.IGNORECASE)
_SIZE = re.compile(r", (\d{1,5})x(\d{1,5})(?=[\s,]|$)")
_ASPECT = re.compile(r"\bSAR (\d+):(\d+)")
_RATE = re.compile(r"([\d.]+)(k?) (fps|tbr)\b")
_TAG = re.compile(r" \(([^()]+) / 0x[0-9A-F]{4,8}\)")


@dataclass(frozen=True)
class Picture:
    """The video stream of a source: its place in the file and its size in square, upright pixels."""

    index: int
    width: int
    height: int
    rate: float | None = None        # frames a second to make of it; None keeps the source's own
    interlaced: bool = False
    hdr: bool = False

    def fit(self, side: int) -> tuple[int, int]:
        """Width and height for a rendition whose shorter side is `side`: even numbers, never larger than the source."""
        scale = min(Fraction(1), Fraction(side, min(self.width, self.height)))
        return max(2, int(self.width * scale) // 2 * 2), max(2, int(self.height * scale) // 2 * 2)


@dataclass
class Source:
    """An input as ffmpeg describes it: feed it the lines of `ffmpeg -i`."""

    path: Path
    duration: float | None = None    # seconds; None when the container does not say
    picture: Picture | None = None
    sound: int | None = None         # index of the first audio stream that can be decoded
    cover: int | None = None         # index of the first attached picture
    found: list[str] = field(default_factory=list)      # "video: h264", "attached picture: mjpeg", for people

    def feed(self, line: str) -> None:
        """Take in one line; lines that say nothing about streams are passed over."""
        if match := _DURATION.match(line):
            self.duration = int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])
        elif match := _STREAM.match(line):
            self._stream(int(match[1]), match[2], match[3])
        elif (match := _ROTATION.match(line)) and self.picture and self._last == self.picture.index:
            if abs(float(match[1])) % 180 == 90:
                self.picture = replace(self.picture, width=self.picture.height, height=self.picture.width)

    def time(self, line: str) -> None:
        """Take in one line of `measure`: the last position is the duration."""
        self.duration = seconds(line) or self.duration

    def _stream(self, index: int, kind: str, text: str) -> None:
        self._last = index
        attached = text.rstrip().endswith("(attached pic)")
        codec = text.split(", ")[0]
        codec = _TAG.sub(r" (\1)" if codec.startswith("none") else "", codec)      # an unknown one has no other name
        self.found.append(f"{'attached picture' if attached else kind.lower()}: {codec}")
        if codec.startswith("none"):
            return
        if kind == "Video" and not attached and self.picture is None:
            self.picture = _picture(index, text)
        elif attached and self.cover is None:
            self.cover = index
        elif kind == "Audio" and self.sound is None:
            self.sound = index


def _picture(index: int, text: str) -> Picture | None:
    size = _SIZE.search(text)
    if not size or "0" in size.groups():
        return None
    width, height = int(size[1]), int(size[2])
    if (aspect := _ASPECT.search(text)) and "0" not in aspect.groups():
        width = max(1, round(width * int(aspect[1]) / int(aspect[2])))
    rates = {unit: float(number) * (1000 if kilo else 1) for number, kilo, unit in _RATE.findall(text)}
    return Picture(index, width, height, rate=_rate(rates.get("tbr"), rates.get("fps")),
                   interlaced=bool(re.search(r"\b(top|bottom) (first|coded first)", text)),
                   hdr=bool(re.search(r"\b(smpte2084|arib-std-b67)\b", text)))


def _rate(tbr: float | None, average: float | None) -> float | None:
    """A variable rate is often announced as 1000 or 90000 a second, a slide show as one in many seconds.

    Players want a steady rate, and the length of a segment is counted in frames, so both extremes get a common rate.
    """
    if tbr is None or RATES.start <= tbr < RATES.stop:
        return None
    if tbr < RATES.start:
        return RATES.start
    return 30 if average and average <= 30.5 else 60


def binary(settings) -> str:
    """Path of the ffmpeg to use: the operator's choice, else the one in the imageio-ffmpeg wheel."""
    if settings.ffmpeg:
        if not shutil.which(settings.ffmpeg):
            raise FileNotFoundError(f"ACCEPTED_FFMPEG={settings.ffmpeg} is not a program that can be run")
        return settings.ffmpeg
    import imageio_ffmpeg  # only the handler needs it
    return imageio_ffmpeg.get_ffmpeg_exe()


def fault(program: str) -> str | None:
    """Why the operator's own ffmpeg cannot do the work, in words for them; None when it can."""
    try:
        done = subprocess.run([program, "-hide_banner", "-encoders"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=60)
    except FileNotFoundError:
        return "there is no such program"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it cannot be run ({getattr(error, 'strerror', None) or error})"
    lacking = [name for name in ("libx264", "aac") if not re.search(rf"^ \S+ {name} ", done.stdout, re.MULTILINE)]
    if done.returncode or len(lacking) == 2:
        return "it does not answer like ffmpeg"
    return f"it lacks the encoder {lacking[0]}" if lacking else None


def guarded(path: Path) -> list[str]:
    """The arguments that open `path` as input, and nothing that it might name."""
    return ["-protocol_whitelist", "file,pipe", "-format_whitelist", FORMATS, "-max_pixels", str(MAX_PIXELS),
            "-i", f"file:{path}"]


def describe(ffmpeg: str, path: Path) -> list[str]:
    """Print what the file holds, on stdout. ffmpeg always ends this with an error: no output was asked for."""
    # The description goes to stderr, of which only a tail is kept; the shell joins it to stdout.
    return ["/bin/sh", "-c", 'exec "$0" "$@" 2>&1', ffmpeg, "-nostdin", "-hide_banner", *guarded(path)]


def measure(ffmpeg: str, source: Source) -> list[str]:
    """Read all packets of one stream without decoding, for containers that do not tell their duration."""
    stream = source.picture.index if source.picture else source.sound
    return [*_quiet(ffmpeg), *guarded(source.path), "-map", f"0:{stream}",
            "-c", "copy", "-f", "null", "-"]


def encode(ffmpeg: str, source: Source, width: int, height: int) -> list[str]:
    """Make one HLS rendition in the current folder: `index.m3u8` and `00000.ts`, `00001.ts`, …

    Key frames stand at the same times in every rendition, so that players can switch at each segment.
    """
    picture = source.picture
    peak = PEAKS[min((side for side in PEAKS if side >= min(width, height)), default=max(PEAKS))]
    argv = [*_gently(ffmpeg), *guarded(source.path), "-map", f"0:{picture.index}", *_sound(source)]
    if picture.rate:
        argv += ["-r", str(picture.rate)]
    return [*argv, "-vf", _filters(picture, width, height),
            "-fps_mode", "cfr", "-c:v", "libx264", "-preset", "veryfast", "-crf", "23",
            "-maxrate", f"{peak}k", "-bufsize", f"{2 * peak}k",
            "-force_key_frames", f"expr:gte(t,n_forced*{SEGMENT})", "-sc_threshold", "0", *_INTO_SEGMENTS]


def encode_sound(ffmpeg: str, source: Source) -> list[str]:
    """The same for the sound alone, which is that of the other renditions."""
    return [*_gently(ffmpeg), *guarded(source.path), *_sound(source), *_INTO_SEGMENTS]


def join(ffmpeg: str, target: str) -> list[str]:
    """Put the rendition in the current folder into one MP4 file, without encoding it again."""
    return [*_quiet(ffmpeg), "-i", "index.m3u8", "-c", "copy", "-movflags", "+faststart", target]


def cover(ffmpeg: str, source: Source, target: Path) -> list[str]:
    """Write the picture that is attached to the source as JPEG, at most 1280 pixels wide."""
    return [*_quiet(ffmpeg), *guarded(source.path), "-map", f"0:{source.cover}", "-vf", r"scale=min(1280\,iw):-1",
            "-frames:v", "1", "-q:v", "3", "-update", "1", f"file:{target}"]


def poster(ffmpeg: str, segment: Path, target: Path) -> list[str]:
    """Choose a telling frame from a segment of our own making and write it as JPEG."""
    return [*_quiet(ffmpeg), "-i", f"file:{segment}", "-vf", "thumbnail=24", "-frames:v", "1", "-q:v", "3",
            "-update", "1", f"file:{target}"]


def guess(path: Path) -> str:
    """What a file may be in which ffmpeg found no stream, in words for a person."""
    with path.open("rb") as file:
        head = file.read(1024)
    if not head:
        return "an empty file"
    if head.startswith((b"#EXTM3U", b"ffconcat")):
        return "a list of other files, which is never followed"
    if head.isascii() and b"\0" not in head:
        return "text"
    if head[4:8] == b"ftyp":
        return "an MP4 file without a usable index (moov): its end may be missing"
    return "no container that is read here"


def seconds(line: str) -> float | None:
    """The position that a line of `-progress` tells; None for other lines, and while there is none (`N/A`)."""
    match = re.fullmatch(r"out_time_us=(\d+)\s*", line)
    return int(match[1]) / 1_000_000 if match else None


def complaint(stderr: str, path: Path) -> str:
    """The last thing of substance that ffmpeg said, without its module names and without this machine's paths."""
    lines = [re.sub(r"^(\[[^\]]*\] )+", "", line.strip()) for line in stderr.splitlines()]
    telling = [line for line in lines if line and not line.startswith("Error opening ")]
    text = telling[-1] if telling else "ffmpeg gave no reason"
    return text.replace(f"file:{path}", "the source").replace(str(path), "the source").removesuffix(".")[:300]


def _gently(ffmpeg: str) -> list[str]:
    # It takes all cores for minutes: "nice" leaves the web server, and those who watch, their share.
    return ["nice", "-n", "5", *_quiet(ffmpeg)]


def _sound(source: Source) -> list[str]:
    if source.sound is None:
        return []
    return ["-map", f"0:{source.sound}", "-c:a", "aac", "-b:a", "128k", "-ac", "2", "-ar", "48000",
            "-af", "aresample=async=1:first_pts=0"]


def _quiet(ffmpeg: str) -> list[str]:
    return [ffmpeg, "-nostdin", "-hide_banner", "-v", "error", "-progress", "pipe:1", "-stats_period", "0.25"]


def _filters(picture: Picture, width: int, height: int) -> str:
    steps = ["bwdif=send_frame:deint=interlaced"] if picture.interlaced else []
    steps.append(f"scale={width}:{height}:out_range=tv")
    if picture.hdr:          # 8 bits cannot hold it: map the light to what a plain screen shows, or it looks washed out
        steps += ["zscale=t=linear:npl=100", "tonemap=hable:desat=0", "zscale=p=bt709:t=bt709:m=bt709:r=tv"]
    return ",".join([*steps, "setsar=1", "format=yuv420p"])
