"""What is set: PDFs read again and looked at, pages and e-books taken apart."""

import re
import xml.etree.ElementTree as ElementTree
import zipfile
from html.parser import HTMLParser

import pypdfium2
import pytest

from jobs.types.article.press import book, epub, page, pdf
from jobs.types.article.press.pictures import Pictures
from tests.types.article.writing import SVG, long_article, made, png, printed, read_again

XHTML = "{http://www.w3.org/1999/xhtml}"


def test_a_long_chinese_article_is_read_again_out_of_its_pdf(tmp_path):
    text, words = long_article()
    assert len(text.encode()) > 30_000
    found = read_again(printed(tmp_path, text))
    start = at = found.index("1.内核", found.index("1.内核") + 1)      # past the table of contents
    for word in words:
        dense = "".join(word.split())
        place = found.find(dense, at)
        assert place >= 0, f"{word} is missing after …{found[max(0, at - 30):at + 60]}"
        at = place + len(dense)
    assert len(found) - start < 1.05 * sum(len("".join(word.split())) for word in words)


def test_its_outline_leads_to_every_heading(tmp_path):
    with pypdfium2.PdfDocument(printed(tmp_path, long_article()[0])) as document:
        outline = [(entry.level, entry.get_title(), entry.get_dest().get_index()) for entry in document.get_toc()]
        assert [title for _, title, _ in outline][:2] == ["1. 内核", "2. 文件系统"] and len(outline) == 20
        assert {level for level, _, _ in outline} == {0}
        pages = [number for _, _, number in outline]
        assert pages == sorted(pages) and 3 < pages[-1] < len(document) < 20
        assert document.get_metadata_dict()["Title"] == "Linux 运维手册" and document.get_metadata_dict()["Author"] == "王小明"


def glyphs(tmp_path, lang: str) -> bytes:
    """A picture of some characters that every region draws in its own way."""
    folder = tmp_path / lang
    folder.mkdir()
    with pypdfium2.PdfDocument(printed(folder, f"---\nlang: {lang}\ntitle: 骨直令角述\n---\n骨直令角述")) as document:
        return bytes(document[0].render(scale=1).buffer)


def test_each_region_has_its_shapes(tmp_path):
    drawn = {lang: glyphs(tmp_path, lang) for lang in ("zh-Hans", "zh-Hant", "ja", "ko", "zh-TW")}
    assert len(set(drawn.values())) == 4 and drawn["zh-TW"] == drawn["zh-Hant"]


def test_typst_in_an_article_is_text(tmp_path):
    code = '#read("/etc/passwd") #{1+1} \\#x $a_b$ @b <lbl> //c /* d */'
    text = (f'# #sys.version\n\n{code}\n\n`#read("x")`\n\n```typ\n#read("/etc/hostname")\n```\n\n'
            "| #panic() | = b |\n|-|-|\n| #x | \\\\ |\n")
    found = read_again(printed(tmp_path, text))
    for said in ("#sys.version", '#read("/etc/passwd")#{1+1}#x$a_b$@b<lbl>//c/*d*/', '#read("x")',
                 '#read("/etc/hostname")', "#panic()", "=b"):
        assert said in found, found


@pytest.mark.parametrize("text", [
    "", "---\ntitle: x\n---\n", "> " * 10_000 + "x", "- " * 10_000 + "x", "*" + "汉字" * 2000 + "*",
    "".join("   " * level + "1. a\n" for level in range(60)), "*a **b " * 500 + "c** d*" * 500,
    "|a" * 200 + "|\n" + "|-" * 200 + "|\n" + "|b" * 200 + "|\n", "|甲|乙|\n|-|-|\n" + "|数据|数据 data|\n" * 300,
    "a" * 20_000 + "\n\n```\n" + "x" * 20_000 + "\n```", "#\n\n##\n\n- \n\n|  |\n|--|\n\n- [ ]\n- [x] \n",
    "[^a] [^b] [^a]\n\n[^a]: x [^b]\n\n    more\n[^b]: y [^a]", "a\0b\u202ec\u2066d\x1b", "999999999. a\n",
    "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> &lt; &#0;"])
def test_hostile_markdown_is_set_in_every_format(tmp_path, text):
    printed(tmp_path, text)
    page.write(made(tmp_path, text), tmp_path / "root", tmp_path / "made.html")
    epub.write(made(tmp_path, text), tmp_path / "root", tmp_path / "made.epub")
    harmless((tmp_path / "made.html").read_text("utf-8"))
    whole(tmp_path / "made.epub")


def test_a_pdf_shows_pictures_and_leaves_out_damaged_ones(tmp_path):
    (tmp_path / "good.png").write_bytes(png(200, 100))
    (tmp_path / "logo.svg").write_text(SVG)
    (tmp_path / "cut.png").write_bytes(png(200, 100)[:60])
    one = made(tmp_path, '![A chart](good.png "Figure 1")\n\nAn icon ![logo](logo.svg) and ![Broken](cut.png)\n\n'
                         "![Also](cut.png)\n")
    warnings = pdf.write(one, tmp_path / "root", tmp_path / "made.pdf")
    assert warnings == ["The picture cut.png is left out: it is damaged."]
    found = read_again(tmp_path / "made.pdf")
    assert "Figure1" in found and "[Broken]" in found and "[Also]" in found
    with pypdfium2.PdfDocument(tmp_path / "made.pdf") as document:
        assert [kind.type for kind in document[0].get_objects()].count(pypdfium2.raw.FPDF_PAGEOBJ_IMAGE) >= 1


def test_characters_without_a_shape_are_named(tmp_path):
    warnings = pdf.write(made(tmp_path, "x 😀 ✅ ไทย"), tmp_path / "root", tmp_path / "made.pdf")
    assert len(warnings) == 1 and "😀 ไ ท ย" in warnings[0] and "ACCEPTED_FONTS_DIR" in warnings[0]


class Seen(HTMLParser):
    """Tags and their attributes, and the text outside style."""

    def __init__(self):
        super().__init__()
        self.tags, self.text, self._open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if "style" not in self._open:
            self.text.append(data)


def harmless(text: str) -> Seen:
    """Parse a page and hold that nothing in it can act or fetch."""
    seen = Seen()
    seen.feed(text)
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs in seen.tags:
        assert tag not in ("script", "iframe", "object", "embed", "form", "base", "link", "svg", "math"), tag
        assert not [name for name in attrs if name.startswith("on") or name == "style"]
        assert re.match(r"#|https?:|mailto:", attrs.get("href", "#"))
        assert attrs.get("src", "data:image/").startswith("data:image/")
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
    return seen


def test_the_page_needs_nothing_beside_it(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "b.svg").write_text(SVG)
    text = ("---\ntitle: '<b>&\"'\nauthor: <i>\nlang: zh\n---\n![x\"y](a.png) ![](b.svg)\n\n"
            "## 一\n\n## 二\n\n## 三\n\n## 四\n\n脚注[^1]\n\n[^1]: 注\n\n"
            "```python\ndef f(): return '<x>'\n```\n\n```nosuch\n<y>\n```\n\n[a](https://x.example/?a=1&b=\"2\")")
    page.write(made(tmp_path, text), tmp_path / "root", tmp_path / "made.html")
    written = (tmp_path / "made.html").read_text("utf-8")
    seen = harmless(written)
    assert written.startswith('<!DOCTYPE html>\n<html lang="zh-Hans">')
    assert [attrs["alt"] for tag, attrs in seen.tags if tag == "img"] == ['x"y', ""]
    assert "<title>&lt;b&gt;&amp;&quot;</title>" in written and '<span class="k">def</span>' in written
    assert {"def f(): return '<x>'\n".strip(), "<y>"} <= {line for line in "".join(seen.text).split("\n")}
    assert "目录" in "".join(seen.text) and "prefers-color-scheme: dark" in written and "@media print" in written
    assert "default-src 'none'" in written


@pytest.fixture
def two(tmp_path):
    """A book of two articles with links between them, a picture and a footnote."""
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "1.md").write_text("---\nauthor: Ada\ndate: 2026-01-02\nlang: en\n---\n# One & only\n\n## Part\n\n"
                                   "![x](a.png)\n\nSee [two](2.md#部分)[^n].\n\n[^n]: Note.\n")
    (tmp_path / "2.md").write_text("# 第二篇\n\n### 部分\n\n## 我们\n\n[back](1.md) `<x>`\n\n| a |\n|--|\n| b |\n")
    entries = [{"name": name, "path": str(tmp_path / name)} for name in ("1.md", "2.md")]
    return book.read(entries, Pictures(tmp_path / "pictures", tmp_path), "Both")


def whole(path) -> dict[str, ElementTree.Element]:
    """Take an e-book apart and hold that it is one: order, types, every file named, every link with an end."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        first = file.infolist()[0]
        assert (first.filename, first.compress_type, first.extra) == ("mimetype", zipfile.ZIP_STORED, b"")
        assert file.read(first) == b"application/epub+zip"
        names = {name.removeprefix("EPUB/") for name in file.namelist() if name.startswith("EPUB/")} - {"package.opf"}
        container = ElementTree.fromstring(file.read("META-INF/container.xml"))
        assert container.find(".//{*}rootfile").get("full-path") == "EPUB/package.opf"
        package = ElementTree.fromstring(file.read("EPUB/package.opf"))
        chapters = [name for name in names if name.endswith(".xhtml")]
        documents = {name: ElementTree.fromstring(file.read(f"EPUB/{name}")) for name in chapters}
    items = {item.get("id"): item for item in package.iterfind(".//{*}item")}
    assert {item.get("href") for item in items.values()} == names
    assert [item.get("href") for item in items.values() if item.get("properties") == "nav"] == ["nav.xhtml"]
    assert all(ref.get("idref") in items for ref in package.iterfind(".//{*}itemref"))
    for tag in ("identifier", "title", "language"):
        assert package.find(f".//{{http://purl.org/dc/elements/1.1/}}{tag}").text is not None
    ids = {name: [element.get("id") for element in root.iterfind(".//*[@id]")] for name, root in documents.items()}
    for name, root in documents.items():
        assert len(ids[name]) == len(set(ids[name]))
        for element in root.iter():
            assert element.tag.removeprefix(XHTML) not in ("script", "iframe", "form")
            if (source := element.get("src")) is not None:
                assert source in names
            href = element.get("href") or "https:"
            if not re.match(r"https?:|mailto:|style\.css", href):
                file_name, _, anchor = href.partition("#")
                assert anchor in ids[file_name], href
    return documents


def test_the_e_book_is_whole(tmp_path, two):
    epub.write(two, tmp_path, tmp_path / "made.epub")
    documents = whole(tmp_path / "made.epub")
    assert set(documents) == {"title.xhtml", "nav.xhtml", "chapter-1.xhtml", "chapter-2.xhtml"}
    nav = documents["nav.xhtml"].find(f".//{XHTML}nav")
    assert ["".join(link.itertext()) for link in nav.iter(f"{XHTML}a")] == ["One & only", "Part", "第二篇", "部分", "我们"]
    assert all(len(item.findall(f"{XHTML}ol")) <= 1 for item in nav.iter(f"{XHTML}li"))
    link = documents["chapter-1.xhtml"].find(f".//{XHTML}p/{XHTML}a")
    assert link.get("href") == "chapter-2.xhtml#部分"
    assert documents["chapter-2.xhtml"].get("lang") == "zh-Hans"


def test_the_validator_of_the_field_accepts_it(tmp_path, two, node):
    epub.write(two, tmp_path, tmp_path / "both.epub")
    epub.write(made(tmp_path, long_article()[0]), tmp_path / "root", tmp_path / "long.epub")
    odd = made(tmp_path, "#\n\n- [x] a\n\n<b> [^1] https://a.example/?b&c\n\n[^1]: x\n\nT\n: d\n")
    epub.write(odd, tmp_path / "root", tmp_path / "odd.epub")
    for name in ("both", "long", "odd"):
        assert node("epub.mjs", str(tmp_path / f"{name}.epub")) == {"valid": True, "messages": []}


def test_the_same_book_has_chapters_in_its_pdf(tmp_path, two):
    pdf.write(two, tmp_path, tmp_path / "made.pdf")
    with pypdfium2.PdfDocument(tmp_path / "made.pdf") as document:
        assert [(entry.level, entry.get_title(), entry.get_dest().get_index()) for entry in document.get_toc()] == [
            (0, "One & only", 1), (1, "Part", 1), (0, "第二篇", 2), (1, "部分", 2), (1, "我们", 2)]
