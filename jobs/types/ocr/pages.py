"""From a file to pages that can be read: upright, in red, green and blue, on white, and no larger than need be."""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy
import pypdfium2
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.Image import Transpose

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PAGES = 500              # of one job: more than half an hour's work
MAX_PIXELS = 100_000_000     # of one picture: A4 at 1000 dots an inch, A3 at 700
SHORT_SIDE = 1414            # pixels that are enough: those of A4 at 170 dots an inch. More take time and memory.
LONGEST = 40_000             # pixels of a rendered page's longer side
DENSEST = 300 / 72           # pixels a point at which a PDF is rendered at most
# What is not read, though it may be sent: how it begins, at which byte, and its name.
_KNOWN = ((b"ftyphei", 4, "HEIC"), (b"ftypmif", 4, "HEIC"), (b"ftypavif", 4, "AVIF"), (b"GIF8", 0, "GIF"),
          (b"BM", 0, "BMP"), (b"PK\3\4", 0, "a zip archive, or an office document"))
# What Pillow's decoders raise over a damaged file.
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, struct.error)

_TURNS = dict(enumerate((       # by Exif's orientation
    Transpose.FLIP_LEFT_RIGHT, Transpose.ROTATE_180, Transpose.FLIP_TOP_BOTTOM,
    Transpose.TRANSPOSE, Transpose.ROTATE_270, Transpose.TRANSVERSE, Transpose.ROTATE_90), start=2))
_ON_ITS_SIDE = {_TURNS[number] for number in (5, 6, 7, 8)}
Image.MAX_IMAGE_PIXELS = None    # we look at the size of each page ourselves, before it is decoded


class Refused(Exception):
    """Nothing of the source can be read. `slug` names the kind of problem."""

    def __init__(self, slug: str, detail: str):
        super().__init__(detail)
        self.slug = slug


class Unreadable(Exception):
    """A page that cannot be read; others may."""


@dataclass(frozen=True)
class Page:
    """A page to be read. `image` may be smaller than the page: `width` by `height` units, px or pt (1/72 inch)."""

    image: Image.Image
    width: float
    height: float
    unit: str


class Source(ABC):
    """A file with one page or more, counted from 1."""

    count: int

    @abstractmethod
    def page(self, number: int) -> Page:
        """The page, decoded. Unreadable, or MemoryError."""

    def choose(self, first: int, last: int) -> range:
        """The numbers of the pages from `first` to `last`, 0 being the last that there is; Refused."""
        if first > self.count:
            raise Refused("invalid-payload", f"The source has {self.count} pages; firstPage is {first}.")
        last = min(last or self.count, self.count)
        if last - first >= MAX_PAGES:
            raise Refused("source-too-large", f"These are {last - first + 1} pages; one job reads at most {MAX_PAGES}. "
                                              "firstPage and lastPage choose some of them.")
        return range(first, last + 1)


def open_source(path: Path) -> Source:
    """The file as pages; Refused when it is none that can be read."""
    with path.open("rb") as file:
        head = file.read(1024)
    return Document(path) if b"%PDF-" in head else Picture(path, head)


class Picture(Source):
    """A picture, or a TIFF file with several."""

    def __init__(self, path: Path, head: bytes):
        try:
            self._image = Image.open(path, formats=FORMATS)
            # A telephone hides its depth map behind the photograph, and films are not read: only a TIFF has pages.
            self.count = self._image.n_frames if self._image.format == "TIFF" else 1
        except UnidentifiedImageError:
            raise Refused("source-unreadable",
                          f"It is neither a PDF nor a picture of a kind that is read. Found: {_guess(head)}.") from None
        except _DAMAGED as error:
            raise Refused("source-unreadable", f"The picture is damaged: {_words(error)}.") from None

    def page(self, number: int) -> Page:
        try:
            self._image.seek(number - 1)
            width, height = self._image.size
            if width * height > MAX_PIXELS:
                most = f"at most {MAX_PIXELS // 1_000_000} million are read"
                raise Unreadable(f"it has {width}×{height} pixels, and {most}")
            return self._decoded(width, height)
        except _DAMAGED as error:
            raise Unreadable(f"it is damaged ({_words(error)})") from None

    def _decoded(self, width: int, height: int) -> Page:
        image = self._image
        # Pillow turns a TIFF by itself, and tells the size that it then has.
        turn = None if image.format == "TIFF" else _TURNS.get(image.getexif().get(ExifTags.Base.Orientation))
        scale = min(1.0, SHORT_SIDE / min(width, height))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        image.draft("RGB", size)        # a JPEG is then decoded no larger than it takes
        small = plain(image, size)
        if turn is not None:
            small = small.transpose(turn)
        if turn in _ON_ITS_SIDE:
            width, height = height, width
        return Page(small, width, height, "px")


class Document(Source):
    """A PDF, whose pages are drawn and then read as pictures, whether there is text in it or not."""

    def __init__(self, path: Path):
        try:
            self._document = pypdfium2.PdfDocument(path)
            self.count = len(self._document)
        except pypdfium2.PdfiumError as error:
            why = "It opens only with a password" if "password" in str(error).lower() else "It is damaged"
            raise Refused("source-unreadable", f"The PDF cannot be opened. {why}.") from None
        if not self.count:
            raise Refused("source-unreadable", "The PDF has no pages.")

    def page(self, number: int) -> Page:
        try:
            page = self._document[number - 1]
            width, height = page.get_size()
            if width < 1 or height < 1:
                raise Unreadable("it has no size")
            scale = min(DENSEST, SHORT_SIDE / min(width, height), LONGEST / max(width, height))
            return Page(page.render(scale=scale).to_pil().convert("RGB"), round(width, 1), round(height, 1), "pt")
        except pypdfium2.PdfiumError:
            raise Unreadable("it is damaged") from None


def plain(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """In red, green and blue of 8 bits, of this size, with white behind what is transparent.

    The models read nothing of pictures of 1 bit or in four colours, and Pillow makes white of most of 16 bits.
    """
    if image.mode.startswith(("I", "F")):
        image = _of_eight_bits(image)
    mode = "RGBA" if image.has_transparency_data else "L" if image.mode in ("1", "L") else "RGB"
    image = image.convert(mode)
    if image.size != size:
        image = image.resize(size, Image.Resampling.BICUBIC, reducing_gap=3)
    if mode == "RGBA":
        white = Image.new("RGBA", size, "white")
        white.alpha_composite(image)
        image = white
    return image.convert("RGB")


def _of_eight_bits(image: Image.Image) -> Image.Image:
    values = numpy.nan_to_num(numpy.asarray(image, dtype=numpy.float32))
    top = 65535 if image.mode.startswith("I;16") else max(float(values.max()), 1)
    return Image.fromarray((values * (255 / top)).clip(0, 255).astype(numpy.uint8))


def _guess(head: bytes) -> str:
    """What a file may be, in words for a person."""
    if not head:
        return "an empty file"
    for mark, place, name in _KNOWN:
        if head[place:].startswith(mark):
            return name
    return "text" if head.isascii() and b"\0" not in head else "no form that is known here"


def _words(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0].strip().rstrip(".") or type(error).__name__
