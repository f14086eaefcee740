"""Reading the playlists that ffmpeg leaves, and writing the master playlist (RFC 8216)."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rendition:
    """One finished rendition, as its own playlist and segments tell."""

    folder: Path
    width: int | None        # None: sound alone
    height: int | None
    segments: tuple[Path, ...]
    duration: float          # seconds: the sum of EXTINF
    bandwidth: int           # bits a second of the largest segment, as RFC 8216 section 4.3.4.2 defines BANDWIDTH
    average: int
    codecs: str


def read(folder: Path, width: int | None, height: int | None, *, sound: bool) -> Rendition | None:
    """Read `folder/index.m3u8`, whose picture has this size, if any.

    None when ffmpeg wrote no playlist, or one in which nothing stands.
    """
    try:
        text = (folder / "index.m3u8").read_text("utf-8")
    except FileNotFoundError:
        return None
    entries = [(float(length), folder / name) for length, name in re.findall(r"#EXTINF:([\d.]+),.*\n([^#\s]+)", text)]
    duration = sum(length for length, _ in entries)
    if not duration:
        return None
    sizes = [(length, path.stat().st_size * 8) for length, path in entries]
    average = round(sum(bits for _, bits in sizes) / duration)
    # A last segment of one or two frames would show an absurd peak.
    peak = max((round(bits / length) for length, bits in sizes if length >= 0.5), default=average)
    return Rendition(folder, width, height, tuple(path for _, path in entries), duration, max(peak, average), average,
                     _codecs(entries[0][1], picture=width is not None, sound=sound))


def master(renditions: dict[str, Rendition]) -> str:
    """The master playlist over renditions by their relative address, best first.

    Sound alone comes last: a player falls back to it where not even the smallest picture gets through.
    """
    lines = ["#EXTM3U", "#EXT-X-VERSION:6", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for address, one in sorted(renditions.items(), key=lambda item: (not item[1].width, -item[1].bandwidth)):
        size = f"RESOLUTION={one.width}x{one.height}," if one.width else ""
        lines += [f"#EXT-X-STREAM-INF:BANDWIDTH={one.bandwidth},AVERAGE-BANDWIDTH={one.average},{size}"
                  f'CODECS="{one.codecs}"', address]
    return "\n".join(lines) + "\n"


def _codecs(segment: Path, *, picture: bool, sound: bool) -> str:
    """RFC 6381 names; H.264's profile, constraints and level follow the header of its sequence parameter set."""
    if not picture:
        return "mp4a.40.2"
    with segment.open("rb") as file:
        head = file.read(64 * 1024)
    found = re.search(rb"\x00\x00\x01[\x27\x47\x67](...)", head, re.DOTALL)
    video = "avc1." + (found[1].hex() if found else "64001f")
    return f"{video},mp4a.40.2" if sound else video
