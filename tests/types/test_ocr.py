"""Reading text: from files in every form to upright pictures, and from those to lines."""

import json
import socket
import subprocess
import sys

import pytest
from marshmallow import ValidationError

from jobs.types.ocr import read_text
from tests.scans import LINES, SIZE, damaged, draw, locked, ribbon, scans  # noqa: F401
from tests.stack import ROOT

SOURCE = "/v1/artifacts/7/content"
installed = pytest.mark.extra("ai", "rapidocr", "onnxruntime", "pypdfium2", "PIL")


@pytest.fixture(scope="module")
def reader():
    """The models, read from their files without any connection."""
    from jobs.types.ocr.reading import Reader

    def refuse(*_):
        raise AssertionError("a connection was opened")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield Reader()


def page(path, number=1):
    from jobs.types.ocr.pages import open_source
    return open_source(path).page(number)


def likeness(image) -> float:
    """How far a picture is from the drawn one: the mean difference of its pixels, 0 to 255."""
    from PIL import ImageChops, ImageStat
    return max(ImageStat.Stat(ImageChops.difference(image.resize(SIZE), draw())).mean)


@pytest.mark.parametrize(("payload", "faults"), [
    ({}, {"sourceUrl"}),
    ({"sourceUrl": SOURCE, "firstPage": 0}, {"firstPage"}),
    ({"sourceUrl": SOURCE, "lastPage": "2"}, {"lastPage"}),
    ({"sourceUrl": SOURCE, "firstPage": 3, "lastPage": 2}, {"lastPage"}),
    ({"sourceUrl": SOURCE, "language": "zh"}, {"language"}),
])
def test_a_bad_payload_is_refused_by_member(payload, faults):
    with pytest.raises(ValidationError) as refused:
        read_text.schema.load(payload)
    assert set(refused.value.messages) == faults


def test_the_declaration_says_what_it_needs():
    assert (read_text.concurrency, read_text.extra, read_text.inputs) == (1, "ai", {"sourceUrl"})
    needed = (ROOT / "requirements-ai.txt").read_text()
    assert {"rapidocr", "onnxruntime", "pypdfium2"} < set(read_text.requires) and "pillow==" in needed
    assert all(f"\n{name}==" in needed for name in read_text.requires if name != "PIL")


@installed
@pytest.mark.parametrize("name", ["plain.png", "plain.jpg", "plain.webp", "plain.pdf", "cmyk.jpg", "bits.png", "bits.tif",
                                  "palette.png", "clear.png", "deep.png", "turned.jpg", "book.tif"])
def test_every_form_becomes_the_same_picture(scans, name):  # noqa: F811
    one = page(scans / name)
    assert one.image.mode == "RGB" and likeness(one.image) < 5
    assert (one.width, one.height, one.unit) == ((200, 130, "pt") if name.endswith("pdf") else (*SIZE, "px"))


@installed
def test_a_large_picture_is_made_smaller_and_keeps_its_measure(tmp_path):
    draw().resize((4000, 2600)).save(tmp_path / "large.jpg")
    one = page(tmp_path / "large.jpg")
    assert (one.width, one.height, min(one.image.size)) == (4000, 2600, 1414)
    assert likeness(one.image) < 5


@installed
@pytest.mark.parametrize(("name", "words"), [
    ("empty", "an empty file"), ("text", "text"), ("picture.gif", "GIF"), ("photo.heic", "HEIC"),
    ("letter.docx", "office document"), ("locked.pdf", "only with a password"), ("half.pdf", "is damaged"),
])
def test_what_cannot_be_opened_is_refused_and_named(tmp_path, name, words):
    from jobs.types.ocr.pages import Refused
    path = tmp_path / name
    match name.partition("."):
        case ("locked", _, _):
            locked(path)
        case ("half", _, form):
            damaged(draw(), path, form)
        case _:
            path.write_bytes({"empty": b"", "text": b"words\n", "picture.gif": b"GIF89a" + bytes(9),
                              "photo.heic": b"\0\0\0\x18ftypheic" + bytes(9), "letter.docx": b"PK\3\4" + bytes(9)}[name])
    with pytest.raises(Refused, match=words) as refused:
        page(path)
    assert refused.value.slug == "source-unreadable" and str(tmp_path) not in str(refused.value)


@installed
def test_a_bomb_and_a_torn_picture_are_pages_that_cannot_be_read(tmp_path):
    from PIL import Image
    from jobs.types.ocr.pages import Unreadable
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    assert (tmp_path / "bomb.png").stat().st_size < 100_000
    with pytest.raises(Unreadable, match="20000×20000 pixels, and at most 100 million"):
        page(tmp_path / "bomb.png")
    with pytest.raises(Unreadable, match="damaged"):
        page(damaged(draw(), tmp_path / "torn.jpg", "jpeg"))


@installed
def test_pages_are_chosen_and_counted(scans):  # noqa: F811
    from jobs.types.ocr.pages import MAX_PAGES, Refused, Source, open_source
    book = open_source(scans / "book.tif")
    assert [list(book.choose(*asked)) for asked in [(1, 0), (2, 2), (2, 99)]] == [[1, 2, 3], [2], [2, 3]]
    with pytest.raises(Refused, match="has 3 pages; firstPage is 4") as refused:
        book.choose(4, 0)
    assert refused.value.slug == "invalid-payload"

    class Library(Source):
        count = MAX_PAGES + 1

        def page(self, number):
            raise NotImplementedError

    assert len(Library().choose(1, MAX_PAGES)) == MAX_PAGES
    with pytest.raises(Refused, match=f"at most {MAX_PAGES}") as refused:
        Library().choose(1, 0)
    assert refused.value.slug == "source-too-large"


@installed
def test_a_long_picture_is_cut_between_its_lines():
    import numpy
    from jobs.types.ocr.pages import Unreadable
    from jobs.types.ocr.reading import slices
    for image, axis in ((ribbon(), 1), (ribbon().rotate(90, expand=True), 0)):
        parts = list(slices(image))
        cuts, ink = [place[axis] for *place, _ in parts[1:]], numpy.asarray(image.convert("L")).std(axis=axis)
        assert len(cuts) >= 3 and all(ink[cut] == 0 for cut in cuts)
        assert sum(part.size[axis] for *_, part in parts) == 4000
    with pytest.raises(Unreadable, match="too long for its width"):
        list(slices(draw().resize((9, 60_000))))


@installed
def test_chinese_and_english_are_read_with_their_places(reader, scans):  # noqa: F811
    from jobs.types.ocr.pages import Page
    lines = reader.read(page(scans / "plain.png"))
    assert [line["text"] for line in lines] == LINES
    assert all(0.8 < line["confidence"] <= 1 for line in lines)
    for number, line in enumerate(lines):
        (left, top), _, (right, bottom), _ = line["box"]
        assert abs(left - 20) < 12 and right - left > 150
        assert 56 * number < top < bottom < 56 * number + 80
    halved = reader.read(Page(draw(), SIZE[0] / 2, SIZE[1] / 2, "pt"))
    assert halved[3]["box"] == [[round(x / 2, 1), round(y / 2, 1)] for x, y in lines[3]["box"]]


@installed
def test_nothing_is_read_where_nothing_stands(reader):
    from jobs.types.ocr.pages import Page
    assert reader.read(Page(draw([]), *SIZE, "px")) == []


@installed
def test_the_child_says_one_object_a_line_and_nothing_else(tmp_path):
    def child(path):
        done = subprocess.run([sys.executable, "-m", "jobs.types.ocr.child", path, "1", "0"], cwd=ROOT,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    (tmp_path / "notes").write_text("words")
    [said] = child(tmp_path / "notes")
    assert said["refused"][0] == "source-unreadable"
    said = child(damaged(draw(), tmp_path / "torn.jpg", "jpeg"))
    assert said[0] == {"total": 1} and said[1]["failed"][0] == 1
