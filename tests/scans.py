"""Pictures with Chinese and English text, drawn on the spot, in every form in which scans arrive."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import _lacking

if TYPE_CHECKING:
    from PIL import Image

FONT = Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc")
LINES = ["The quick brown fox", "人工智能改变世界", "Invoice 2026-0918", "合計金額：1,234元"]
SIZE = 400, 260


def draw(lines=LINES, mode="RGB", ground="white", ink="black") -> "Image.Image":
    """A picture with these lines."""
    from PIL import Image, ImageDraw, ImageFont
    if not FONT.exists():
        _lacking("tests with Chinese pictures (no Noto CJK: apt-get install fonts-noto-cjk)")
    image = Image.new(mode, SIZE, ground)
    pen, font = ImageDraw.Draw(image), ImageFont.truetype(FONT, 28, index=2)
    for number, line in enumerate(lines):
        pen.text((20, 20 + 56 * number), line, fill=ink, font=font)
    return image


def turned(into: Path) -> Path:
    """A photograph taken with the telephone on its side: its pixels lie, and Exif says so."""
    from PIL import ExifTags, Image
    image = draw().transpose(Image.Transpose.ROTATE_90)
    exif = image.getexif()
    exif[ExifTags.Base.Orientation] = 6     # to be turned 90° clockwise
    image.save(into, exif=exif, quality=95)
    return into


def ribbon(height=4000) -> "Image.Image":
    """A long screenshot: a line of text every 100 pixels."""
    from PIL import Image
    image = Image.new("RGB", (SIZE[0], height), "white")
    one = draw(["A line of text"]).crop((0, 0, SIZE[0], 100))
    for top in range(0, height, 100):
        image.paste(one, (0, top))
    return image


def damaged(image: "Image.Image", into: Path, form: str) -> Path:
    """The picture without its second half."""
    whole = io.BytesIO()
    image.save(whole, form)
    into.write_bytes(whole.getvalue()[:whole.tell() // 2])
    return into


def locked(into: Path) -> Path:
    """A PDF that opens only with a password: its keys fit no empty one."""
    parts = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>",
             b"<< /Filter /Standard /V 1 /R 2 /O <" + b"11" * 32 + b"> /U <" + b"22" * 32 + b"> /P -4 >>"]
    text, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    text += (b"xref\n0 4\n0000000000 65535 f \n" + table + b"trailer\n<< /Size 4 /Root 1 0 R /Encrypt 3 0 R "
             b"/ID [<31> <31>] >>\nstartxref\n%d\n%%%%EOF\n" % len(text))
    into.write_bytes(text)
    return into


@pytest.fixture(scope="session")
def scans(tmp_path_factory) -> Path:
    """A folder with a scan of each kind."""
    folder = tmp_path_factory.mktemp("scans")
    image = draw()
    for form in ("png", "webp", "pdf"):
        image.save(folder / f"plain.{form}", **({"resolution": 144} if form == "pdf" else {}))
    image.save(folder / "plain.jpg", quality=95)
    image.convert("CMYK").save(folder / "cmyk.jpg", quality=95)
    image.convert("1").save(folder / "bits.png")
    image.convert("1").save(folder / "bits.tif", compression="group4")
    image.convert("P").save(folder / "palette.png")
    draw(mode="RGBA", ground=(0, 0, 0, 0)).save(folder / "clear.png")
    deep = draw(mode="I", ground=65535, ink=0)
    deep.convert("I;16").save(folder / "deep.png")
    turned(folder / "turned.jpg")
    image.save(folder / "book.tif", save_all=True, append_images=[
        draw(["Second page", "第二页"]).convert("1"), draw(["Third page", "第三页"]).convert("CMYK")])
    return folder
