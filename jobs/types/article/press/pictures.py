"""The pictures that an article may show: those of its own folder, or those uploaded with it, and nothing else."""

import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

MAX_BYTES = 20 * 1024**2
MAX_PIXELS = 50_000_000         # a larger one takes more memory, unpacked, than a page is worth
MAX_TOTAL = 200 * 1024**2       # bytes of all pictures of one export
_KINDS = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "svg": "image/svg+xml"}
_SVG = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s|<\?xml[^>]*\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>)*<svg[\s>]", re.DOTALL)
# Scripts, entities, and everything that would be fetched from elsewhere.
_ACTIVE = re.compile(rb"<!ENTITY|<\s*(?:\w+:)?(?:script|foreignObject|iframe|handler)\b|\son\w+\s*=|javascript:"
                     rb"|\bhref\s*=\s*[\"'](?!#|data:image/(?:png|jpeg|gif|webp)[;,])|@import|url\s*\((?!\s*[\"']?#)",
                     re.IGNORECASE)


class Unusable(Exception):
    """Why a picture is left out."""


@dataclass(frozen=True)
class Picture:
    """A picture that was taken over: its name in the folder of pictures, and its size in pixels."""

    name: str
    media_type: str
    width: int
    height: int


class Pictures:
    """Takes pictures over into `target`: out of a folder, or out of the files that were uploaded, by their names."""

    def __init__(self, target: Path, folder: Path | None = None, files: dict[str, Path] | None = None):
        self.target, self.files = target, files or {}
        self.folder = folder.resolve() if folder else None
        self._taken: dict[Path, Picture] = {}
        self._bytes = 0

    def take(self, source: str) -> Picture:
        """The picture that an article calls `source`. Unusable says why there is none."""
        try:
            path = self._find(source)
        except OSError:     # a name that is no name
            raise Unusable("there is no such file") from None
        if path not in self._taken:
            self._taken[path] = self._take_over(path)
        return self._taken[path]

    def _find(self, source: str) -> Path:
        parts = urlsplit(source)
        if parts.scheme or parts.netloc or source.startswith(("/", "\\")):
            raise Unusable("only pictures of the article's own folder are shown")
        name = unquote(parts.path)
        if "\0" in name or "\\" in name or ".." in name.split("/"):
            raise Unusable("only pictures of the article's own folder are shown")
        if self.folder is None:
            found = self.files.get(name.rpartition("/")[2])
        else:
            found = (self.folder / name).resolve()
            if not found.is_relative_to(self.folder):       # a symbolic link that leads out
                raise Unusable("only pictures of the article's own folder are shown")
        if found is None or not found.is_file():
            raise Unusable("there is no such file")
        return found

    def _take_over(self, path: Path) -> Picture:
        if path.stat().st_size > MAX_BYTES:
            raise Unusable(f"it is larger than {MAX_BYTES // 1024**2} MB")
        data = path.read_bytes()
        self._bytes += len(data)
        if self._bytes > MAX_TOTAL:
            raise Unusable(f"all pictures together are larger than {MAX_TOTAL // 1024**2} MB")
        kind, width, height = measure(data)
        if width * height > MAX_PIXELS:
            raise Unusable(f"it has more than {MAX_PIXELS // 1_000_000} million pixels")
        name = f"{len(self._taken) + 1}.{kind}"
        self.target.mkdir(exist_ok=True)
        shutil.copyfile(path, self.target / name)
        return Picture(name, _KINDS[kind], width, height)


def measure(data: bytes) -> tuple[str, int, int]:
    """Kind (`png`, `jpg`, `gif`, `webp`, `svg`), width and height by the file's own head. Unusable if it is none."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return "png", *_some(struct.unpack(">II", data[16:24]))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return "gif", *_some(struct.unpack("<HH", data[6:10]))
        if data.startswith(b"\xff\xd8"):
            return "jpg", *_some(_jpeg(data))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return "webp", *_some(_webp(data))
    except (struct.error, IndexError):
        raise Unusable("it is damaged") from None
    if _SVG.match(data[:4096]):
        if _ACTIVE.search(data):
            raise Unusable("it holds scripts, or refers to something outside")
        return "svg", *_svg(data)
    raise Unusable("it is no PNG, JPEG, GIF, WebP or SVG picture")


def _some(size: tuple[int, int]) -> tuple[int, int]:
    if 0 in size:
        raise Unusable("it is damaged")
    return size


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        while data[at] == 0xFF and data[at + 1] == 0xFF:
            at += 1
        marker, length = data[at + 1], struct.unpack(">H", data[at + 2:at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        if data[at] != 0xFF or length < 2:
            raise Unusable("it is damaged")
        at += 2 + length


def _webp(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _svg(data: bytes) -> tuple[int, int]:
    """From width and height in pixels, else from the viewBox, else as browsers have it."""
    tag = data[data.index(b"<svg"):][:4096].partition(b">")[0]
    sides = re.findall(rb"""\s(width|height)\s*=\s*["'](\d{1,6}(?:\.\d{0,6})?)(?:px)?["']""", tag)
    given = {name: float(number) for name, number in sides}
    if len(given) == 2:
        width, height = given[b"width"], given[b"height"]
    else:
        box = re.search(rb"""\sviewBox\s*=\s*["']\s*[-\d.]+[\s,]+[-\d.]+[\s,]+(\d+\.?\d*)[\s,]+(\d+\.?\d*)""", tag)
        width, height = (float(box[1]), float(box[2])) if box else (300, 150)
    return max(1, round(width)), max(1, round(height))
