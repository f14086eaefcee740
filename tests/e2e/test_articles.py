"""Articles through the whole running server: three kinds of source, three formats, and what is refused."""

import io
import json
import re
import subprocess
import zipfile

import pypdfium2
import pytest
import requests

from tests.stack import ROOT, Stack
from tests.types.article.writing import SVG, png

PAGE = (ROOT / "docs/articles.md").read_text("utf-8")
TYPES = {"pdf": "application/pdf", "html": "text/html; charset=utf-8", "epub": "application/epub+zip"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("articles")
    (folder / "linux" / "images").mkdir(parents=True)
    (folder / "linux" / "10-network.md").write_bytes("# 网络\n\n配置网络的方法，我们在这里说明。\n".encode("gb18030"))
    (folder / "linux" / "2-install.md").write_text(
        "# 安装\n\n![图](images/a.png)\n\n![no](../secret.png)\n\n见[网络](10-network.md)。\n", "utf-16")
    (folder / "linux" / "README.md").write_text("# 前言\n\n欢迎。\n")
    (folder / "linux" / ".hidden.md").write_text("# hidden\n")
    (folder / "linux" / "images" / "a.png").write_bytes(png())
    (folder / "secret.png").write_bytes(png())
    (folder / "secret.md").write_text("# secret\n")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(scope="module")
def stack(library, tmp_path_factory):
    with Stack(tmp_path_factory.mktemp("server"), articles_dir=library) as stack:
        yield stack


@pytest.fixture(scope="module")
def alice(stack):
    return stack.session("alice")


@pytest.mark.needs("curl")
def test_the_page_works_line_by_line(stack, tmp_path):
    """First of all here: its download names the server's first job."""
    alice = stack.session("alice")
    (tmp_path / "guide.md").write_text("# Guide\n\n![chart](images/chart.png)\n")
    (tmp_path / "chart.png").write_bytes(png())
    commands = dict(re.findall(r"<!-- run: (\w+) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))

    def run(name):
        outside = {"PATH": "/usr/bin:/bin", "ACCEPTED_URL": stack.url, "ACCEPTED_KEY": alice.key}
        done = subprocess.run(["sh", "-c", commands[name]], capture_output=True, text=True, check=True, timeout=120,
                              cwd=tmp_path, env=outside)
        return json.loads(done.stdout or "null")

    placeholder = run("topic")
    assert (placeholder["status"], placeholder["job"], placeholder["topic"]) == ("processing", "/v1/jobs/1", "linux")
    assert run("markdown")["title"] == "笔记"
    book = run("files")
    assert (book["title"], book["articles"], book["warnings"]) == ("Guide", 1, [])
    alice.finished("1", 60)
    run("download")
    assert (tmp_path / "linux.pdf").read_bytes().startswith(b"%PDF-")


def upload(client, name: str, data: bytes) -> dict:
    answer = client.post("/v1/files", params={"name": name}, data=data)
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def uploads(alice):
    return [upload(alice, "第二.md", "# 第二篇\n\n再见。".encode("utf-8-sig"))["id"],
            upload(alice, "图.svg", SVG.encode())["url"],
            upload(alice, "first.markdown", b"---\ntitle: First\n---\n![](%E5%9B%BE.svg) Hello there.")["url"]]


@pytest.mark.parametrize("source", ["topic", "markdown", "files"])
@pytest.mark.parametrize("format", ["pdf", "html", "epub"])
def test_each_source_in_each_format(alice, uploads, source, format):
    given = {"topic": "linux", "markdown": "# 标题\n\n正文 *x*。", "files": uploads}
    answer = alice.post("/v1/article-exports", json={"format": format, source: given[source], "tags": ["books"]})
    assert answer.status_code == 202, answer.text
    job = alice.finished(answer.headers["Location"].rpartition("/")[2], 60)
    assert job["status"] == "succeeded", job
    result = job["result"]
    said, title, articles = {"topic": ("配置网络的方法", "linux", 3), "markdown": ("正文", "标题", 1),
                             "files": ("Hellothere", "第二篇", 2)}[source]
    assert (result["format"], result["title"], result["articles"]) == (format, title, articles)
    assert len(result["warnings"]) == (source == "topic")

    resource = alice.get(job["resource"]).json()
    assert resource["status"] == "ready" and resource.items() >= result.items()
    artifact = alice.get(result["artifact"]).json()
    assert (artifact["link"], artifact["linkExpiresAt"]) == (result["download_url"], result["expires_at"])
    assert artifact["name"] == f"{title}.{format}"
    download = requests.get(result["download_url"], timeout=30)     # without a key
    assert download.status_code == 200 and download.headers["Content-Type"] == TYPES[format]
    assert len(download.content) == result["size"] and said in words(download.content, format)


def words(data: bytes, format: str) -> str:
    if format == "pdf":
        with pypdfium2.PdfDocument(data) as document:
            text = "".join(document[number].get_textpage().get_text_range() for number in range(len(document)))
    elif format == "html":
        text = data.decode()
    else:
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            text = "".join(book.read(name).decode() for name in book.namelist() if name.endswith(".xhtml"))
    return "".join(text.split())


def test_the_articles_of_a_topic_stand_in_order_and_nothing_hidden_is_among_them(alice):
    job = alice.finished(alice.submit("article.export", format="html", topic="linux", title="Linux 手册")["id"], 60)
    page = requests.get(job["result"]["download_url"], timeout=30).text
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["前言", "安装", "网络"] and "<h1>Linux 手册</h1>" in page
    assert page.count("<img ") == 1 and "hidden" not in page and 'href="#网络"' in page
    assert "images" not in json.dumps(job["payload"]) and "secret.png" in job["result"]["warnings"][0]


@pytest.mark.parametrize(("payload", "pointer", "words"), [
    ({"format": "pdf"}, "#", "Say what to export"),
    ({"format": "docx", "topic": "linux"}, "#/format", "one of"),
    ({"format": "pdf", "topic": "linux", "markdown": "x"}, "#/markdown", "either this or topic"),
    ({"format": "pdf", "topic": "windows"}, "#/topic", "Ask the operator"),
    ({"format": "pdf", "topic": "empty"}, "#/topic", "no articles yet"),
    ({"format": "pdf", "topic": "secret.md"}, "#/topic", "Ask the operator"),
    ({"format": "pdf", "topic": ".."}, "#/topic", "cannot be the name"),
    ({"format": "pdf", "topic": "../articles/linux"}, "#/topic", "cannot be the name"),
    ({"format": "pdf", "topic": "linux/../linux"}, "#/topic", "cannot be the name"),
    ({"format": "pdf", "topic": "/etc"}, "#/topic", "cannot be the name"),
    ({"format": "pdf", "topic": "linux\n"}, "#/topic", "cannot be the name"),
    ({"format": "pdf", "topic": "a\0b"}, "#/topic", "cannot be the name"),
    ({"format": "pdf", "markdown": ""}, "#/markdown", "ength"),
    ({"format": "pdf", "files": []}, "#/files", "ength"),
    ({"format": "pdf", "files": ["/v1/artifacts/99999/content"]}, "#/files/0", "no such file"),
    ({"format": "pdf", "files": ["file:///etc/passwd"]}, "#/files/0", "no such file"),
    ({"format": "pdf", "markdown": "x", "template": "y"}, "#/template", "nknown"),
])
def test_what_can_be_judged_at_once_is(alice, library, payload, pointer, words):
    answer = alice.post("/v1/article-exports", json=payload)
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["pointer"] == pointer and words in error["detail"], error
    assert "linux" not in answer.text and str(library) not in answer.text
    if pointer.startswith("#/topic"):
        nested = alice.post("/v1/jobs", json={"type": "article.export", "payload": payload}).json()
        assert nested["errors"][0]["pointer"] == "#/payload/topic"


def test_files_of_another_kind_are_named_and_none_is_no_export(alice):
    good, bad = upload(alice, "a.md", b"# A")["id"], upload(alice, "b.docx", b"PK")["id"]
    mixed = alice.finished(alice.submit("article.export", format="epub", files=[bad, good])["id"], 60)
    assert mixed["status"] == "partialSuccess" and [one["part"] for one in mixed["error"]["errors"]] == ["b.docx"]
    alone = alice.finished(alice.submit("article.export", format="epub", files=[bad])["id"], 60)
    assert alone["status"] == "failed" and alone["error"]["type"].endswith("/problems/nothing-to-export")
    assert alice.get(alone["resource"]).json()["status"] == "failed"


def test_the_type_describes_itself(alice):
    found = {entry["name"]: entry for entry in alice.get("/v1/job-types").json()["jobTypes"]}["article.export"]
    assert (found["collection"], found["cancellation"]) == ("/v1/article-exports", "transactional")
    members = found["payload"]["properties"]
    assert found["payload"]["required"] == ["format"] and members["format"]["enum"] == ["pdf", "html", "epub"]
    assert all(member["description"] for member in members.values())


def test_a_server_without_articles_says_so(server):
    answer = server.session("alice").post("/v1/article-exports", json={"format": "pdf", "topic": "linux"})
    assert answer.status_code == 422 and "ACCEPTED_ARTICLES_DIR" in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("setting", ["articles_dir", "fonts_dir"])
def test_a_folder_that_is_not_there_stops_the_start(tmp_path, setting):
    stack = Stack(tmp_path, **{setting: tmp_path / "nowhere"})
    assert stack.command("start").wait(60) not in (0, None)
    assert f"ACCEPTED_{setting.upper()}=" in stack.output() and "there is no such folder" in stack.output()
    assert "Traceback" not in stack.output()
