"""What articles are read as: encodings, front matter, languages, pictures, and the tree that is made of them."""

import json

import pytest

from jobs.types.article.press import book, decoding, front_matter, inlines, languages, pictures, tree
from tests.types.article.writing import SVG, made, png

CHINESE = "操作系统是管理计算机硬件与软件资源的程序，我们在这里说明它的结构和使用方法。\n\n第二段：安装、配置、更新。\n"
TRADITIONAL = "作業系統是管理電腦硬體與軟體資源的程式，我們在這裡說明它的結構和使用方法。\n\n第二段：安裝、設定、更新。\n"
JAPANESE = "オペレーティングシステムはハードウェアとソフトウェアを管理します。ここでは使い方を説明します。\n"
KOREAN = "운영 체제는 하드웨어와 소프트웨어를 관리하는 프로그램입니다. 여기에서 사용하는 방법을 설명합니다.\n"


@pytest.mark.parametrize(("text", "encoding"), [
    (CHINESE, "utf-8"), (CHINESE, "utf-8-sig"), (CHINESE, "utf-16"), (CHINESE, "utf-16-le"), (CHINESE, "utf-16-be"),
    (CHINESE, "utf-32"), (CHINESE, "gb18030"), (CHINESE + "𠮷😀", "gb18030"), (CHINESE, "gbk"),
    (TRADITIONAL, "big5"), (TRADITIONAL, "gb18030"), (JAPANESE, "cp932"), (JAPANESE, "euc_jp"), (KOREAN, "cp949"),
    ("Plain ASCII\n", "utf-16-le"), ("Plain ASCII\n", "ascii"),
])
def test_encodings_are_told_apart(text, encoding):
    assert decoding.decode(text.encode(encoding)) == text


def test_a_mark_wins_and_noise_is_refused():
    assert decoding.decode(b"\xff\xfe" + CHINESE.encode("utf-16-le")) == CHINESE
    with pytest.raises(decoding.Unreadable):
        decoding.decode(bytes(range(128, 256)) * 7)


def test_what_could_deceive_or_break_a_page_is_taken_out():
    assert decoding.decode(b"a\0b\x1bc\r\nd\re") == "a\ufffdb\ufffdc\nd\ne"
    assert decoding.decode("if admin\u202e} \u2066// check\ufffe".encode()) == "if admin} // check\ufffd"


@pytest.mark.parametrize(("text", "tag"), [
    (CHINESE, "zh-Hans"), (TRADITIONAL, "zh-Hant"), (JAPANESE, "ja"), (KOREAN, "ko"),
    ("The rest of it is in the next part.", "en"), ("Der Rest steht im nächsten Teil.", None), ("", None)])
def test_languages_are_guessed(text, tag):
    assert languages.guess(text) == tag


@pytest.mark.parametrize(("tag", "code", "region", "face"), [
    ("zh", "zh", "CN", "SC"), ("zh_TW", "zh", "TW", "TC"), ("zh-Hant-HK", "zh", "HK", "HK"),
    ("ja-JP", "ja", None, "JP"), ("ko", "ko", None, "KR"), ("de-AT", "de", None, "SC"), (None, "en", None, "SC"),
    ('x"><script>', "en", None, "SC")])
def test_a_language_chooses_its_shapes(tag, code, region, face):
    found = languages.language(tag)
    assert (found.code, found.region, found.face) == (code, region, face)


def test_front_matter_is_read_and_a_rule_is_none():
    values, body = front_matter.split('---\ntitle: "系统: 入门"\nauthors:\n  - Ada\n  - 王小明\ndate: 2026-03-14  # today\n'
                                      "tags: [a, b]\n---\n# Text\n")
    assert values == {"title": ["系统: 入门"], "authors": ["Ada", "王小明"], "date": ["2026-03-14"], "tags": ["a", "b"]}
    assert body == "# Text\n"
    assert front_matter.split("---\nJust a rule above.\n\n---\n")[0] == {}
    assert front_matter.split("Text: none\n")[0] == {}


def test_title_author_and_language_come_from_the_article(tmp_path):
    one = made(tmp_path, "---\nauthor: Ada\ndate: 2026-01-02\nlang: ja\n---\n# 設定\n\n本文\n\n## 次\n")
    assert (one.title, one.authors, one.date, one.language.tag) == ("設定", ["Ada"], "2026-01-02", "ja")
    assert one.headings() == [(1, "次", "次")]
    assert made(tmp_path, "no heading", "name of the file.md").title == "name of the file"


def test_a_line_end_is_a_space_only_where_words_are_set_apart(tmp_path):
    one = made(tmp_path, "中文\n中文 *强调*\n**加粗**，\nEnglish\nwords\n한국\n어 —\n中文\n")
    assert inlines.plain(one.chapters[0].article.blocks) == "中文中文 强调加粗， English words 한국 어 —中文"


def test_links_lead_within_the_book_or_outside_and_nowhere_else(tmp_path):
    (tmp_path / "b.md").write_text("# Second\n\n## Part two\n\n[back](a.md#first-part) [top](./a.md)")
    (tmp_path / "a.md").write_text(
        "# First\n\n## First part\n\n[own](#first-part) [other](b.md#Part-two) [lost](#nowhere) [file](c.md) "
        "[x](javascript:alert(1)) [y](data:text/html,x) [z](file:///etc/passwd) [w](//evil.example/) "
        "[ok](https://a.example/?a=1&b) <mailto:a@b.example> https://bare.example/路，然后 (http://in.example/x).")
    entries = [{"name": name, "path": str(tmp_path / name)} for name in ("a.md", "b.md")]
    found = book.read(entries, pictures.Pictures(tmp_path / "p", tmp_path), "Both")
    links = [node for chapter in found.chapters for node in book.walk(chapter.article.blocks) if node["kind"] == "link"]
    assert [node.get("to") or node["href"] for node in links] == [
        "first-part", "part-two", "https://a.example/?a=1&b", "mailto:a@b.example", "https://bare.example/",
        "http://in.example/x", "first-part", "first"]
    assert found.headings() == [(1, "first", "First"), (2, "first-part", "First part"),
                                (1, "second", "Second"), (2, "part-two", "Part two")]


def test_ids_are_unique_over_the_whole_book(tmp_path):
    ids = set()
    for _ in range(3):
        tree.parse("# 3 Same\n# 3 Same\n# !?\n", lambda source: None, ids)
    assert len(ids) == 9 and all(id[0].isalpha() for id in ids)


def test_pictures_come_from_the_articles_own_folder_only(tmp_path):
    own = tmp_path / "own"
    (own / "sub").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(png())
    (own / "sub" / "a b.png").write_bytes(png(30, 20))
    (own / "leads-out.png").symlink_to(tmp_path / "secret.png")
    (own / "no.png").write_text("root:x:0:0")
    taker = pictures.Pictures(tmp_path / "taken", own)
    taken = taker.take("sub/a%20b.png")
    assert (taken.name, taken.width, taken.height) == ("1.png", 30, 20) and (tmp_path / "taken/1.png").exists()
    assert taker.take("./sub/a b.png") == taken
    for source in ("../secret.png", "sub/../../secret.png", "%2e%2e/secret.png", "..\\secret.png", "leads-out.png",
                   str(tmp_path / "secret.png"), "file:///etc/passwd", "https://example.org/x.png",
                   "//example.org/x.png", "no.png", "none.png", "sub", "", "a\0b", "data:image/png;base64,AA",
                   "x" * 5000):
        with pytest.raises(pictures.Unusable):
            taker.take(source)
    assert len(list((tmp_path / "taken").iterdir())) == 1


def test_uploaded_pictures_are_found_by_name(tmp_path):
    (tmp_path / "stored").write_bytes(png())
    taker = pictures.Pictures(tmp_path / "taken", files={"图.png": tmp_path / "stored"})
    assert taker.take("images/%E5%9B%BE.png").name == "1.png"


@pytest.mark.parametrize(("data", "kind", "width", "height"), [
    (png(7, 9), "png", 7, 9), (b"GIF89a\x07\0\x09\0", "gif", 7, 9),
    (b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x0b\x08\0\x09\0\x07", "jpg", 7, 9),
    (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x06\0\0\x08\0\0", "webp", 7, 9),
    (SVG.encode(), "svg", 40, 20), (b"<svg>", "svg", 300, 150),
    (b'<?xml version="1.0"?>\n<!-- x -->\n<!DOCTYPE svg>\n<svg viewBox="0 0 8 6.2"></svg>', "svg", 8, 6)])
def test_pictures_are_known_by_their_heads(data, kind, width, height):
    assert pictures.measure(data) == (kind, width, height)


@pytest.mark.parametrize("data", [
    b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", png(0, 9), b"<html>", b"%PDF-1.7",
    b"<svg><script>alert(1)</script></svg>", b'<svg onload="x()"></svg>',
    b'<svg><image href="file:///etc/passwd"/></svg>', b'<svg><use xlink:href="http://a.example/x#y"/></svg>',
    b"<svg><style>@import 'x';</style></svg>", b"<svg fill='url(http://a.example/)'/>",
    b'<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>'])
def test_what_is_no_harmless_picture_is_left_out(data):
    with pytest.raises(pictures.Unusable):
        pictures.measure(data)


def test_a_picture_of_too_many_pixels_is_left_out(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png(1, 1)[:16] + (100_000).to_bytes(4, "big") * 2 + png(1, 1)[24:])
    one = made(tmp_path, "![x](bomb.png)")
    assert "million pixels" in one.warnings[0]


@pytest.mark.parametrize("text", [
    ">" * 10_000 + "x", "- " * 10_000 + "x", "*" * 10_000 + "a" + "*" * 10_000, "[" * 10_000, "![" * 5_000,
    "`" * 10_000, "[^a]" * 2_000 + "\n\n[^a]: x [^a]", "*a **b " * 2_000 + "c** d*" * 2_000,
    "|a" * 500 + "|\n" + "|-" * 500 + "|\n",
    "".join("  " * level + "- a\n" for level in range(200))])
def test_a_tree_is_never_deep(text):
    article = tree.parse(text, lambda source: None, set())
    json.dumps([article.blocks, article.notes])
    assert depth(article.blocks) < 60 and depth(article.notes) < 60


def depth(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0) if isinstance(value, (dict, list)) else 0


def test_the_tree_holds_what_markdown_says(tmp_path):
    blocks = made(tmp_path, "1. one\n2. [x] done\n\n| a | b |\n|:-:|--|\n| `x` | y<br>z |\n\n"
                            "Term\n: what\n\n<!-- gone -->\n\n```{.py}\nx\n```\n")
    found = blocks.chapters[0].article.blocks
    assert [block["kind"] for block in found] == ["list", "table", "terms", "code"]
    assert [item["done"] for item in found[0]["items"]] == [None, True] and found[0]["tight"]
    assert found[1]["align"] == ["center", "left"] and found[1]["rows"][0][1][1] == {"kind": "break"}
    assert found[3]["language"] == "py"
