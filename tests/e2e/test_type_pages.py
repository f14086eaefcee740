"""docs/video.md, docs/ocr.md and docs/reports.md: their command lines work in the order in which they stand there."""

import json
import re
import shutil
import subprocess

import pytest

from jobs import settings
from jobs.types.report.data_file import read_sources
from tests.clips import clip  # noqa: F401
from tests.scans import LINES, scans  # noqa: F401
from tests.stack import ROOT

pytestmark = pytest.mark.needs("curl")


class Reader:
    """Somebody who types what a page says, with the ids that the server gave instead of the page's."""

    def __init__(self, page: str, client, folder):
        self.text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        self._client, self._folder = client, folder
        self._ids: dict[str, str] = {}

    def type_all(self) -> list[str]:
        """What each command answered."""
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", self.text, re.DOTALL)).replace("\\\n", "")
        return [self._type(line) for line in blocks.splitlines() if line.startswith("curl ")]

    def here(self, text: str) -> str:
        """The text with the server's ids."""
        for theirs, ours in self._ids.items():
            text = text.replace(theirs, ours)
        return text

    def _type(self, line: str) -> str:
        client = {"ACCEPTED_URL": self._client.base, "ACCEPTED_KEY": self._client.key}
        done = subprocess.run(["sh", "-c", self.here(line)], cwd=self._folder, capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin"} | client)
        assert done.returncode == 0, done.stderr
        if "?wait=" in line and json.loads(done.stdout)["status"] in ("queued", "running"):
            return self._type(line)     # as anyone would
        if "-F file=@" in line:
            self._ids["/v1/artifacts/7/"] = json.loads(done.stdout)["url"].removesuffix("content")
        if done.stdout.startswith("HTTP/1.1 202"):
            placeholder = json.loads(done.stdout.splitlines()[-1])
            collection = re.search(r"\$ACCEPTED_URL(/v1/[a-z-]+) ", line)[1]
            self._ids |= {"/v1/jobs/501": placeholder["job"], f"{collection}/9": f"{collection}/{placeholder['id']}"}
        return done.stdout


@pytest.fixture
def alice(server):
    return server.session("alice")


def test_the_page_about_video(alice, clip, tmp_path):  # noqa: F811
    shutil.copy(clip("plain.mp4"), tmp_path / "talk.mov")
    reader = Reader("video.md", alice, tmp_path)
    *_, job = reader.type_all()
    assert json.loads(job)["status"] == "succeeded", job
    addresses = re.findall(r"^\| `(/v1/videos/9/\S+?)`", reader.text, re.MULTILINE)
    assert len(addresses) == 5
    found = {address: alice.get(reader.here(address)).status_code for address in addresses}
    assert found == {address: 404 if address.endswith(".mp4") else 200 for address in addresses}


@pytest.mark.extra("ai", "rapidocr", "onnxruntime", "pypdfium2", "PIL")
def test_the_page_about_reading(alice, scans, tmp_path):  # noqa: F811
    shutil.copy(scans / "plain.pdf", tmp_path / "letter.pdf")
    reader = Reader("ocr.md", alice, tmp_path)
    assert all((ROOT / f"requirements-{word}.txt").exists() for word in re.findall(r"\./run install (\w+)", reader.text))
    *_, job, text, pages = reader.type_all()
    result = json.loads(job)["result"]
    assert text.splitlines() == LINES
    assert json.loads(pages)["pages"] == result["pages"]
    example = re.search(r"```jsonc\n// GET \S+\n(.*?)```", reader.text, re.DOTALL)[1]
    example = json.loads(re.sub(r"//.*", "", example))
    assert list(example) == list(result) and example["pages"][0].keys() == result["pages"][0].keys()
    assert [one.keys() for one in example["files"]] == [one.keys() for one in result["files"]]


def test_the_page_about_reports(alice, tmp_path, monkeypatch):
    reader = Reader("reports.md", alice, tmp_path)
    job, resource = map(json.loads, reader.type_all()[1:])
    result = job["result"]
    assert job["status"] == "succeeded" and {name: resource[name] for name in result} == result
    example = re.search(r"```jsonc\n// GET \S+\n(.*?)```", reader.text, re.DOTALL)[1]
    assert list(json.loads(re.sub(r"\s//.*", "", example))) == list(result)
    columns = alice.get(result["artifact"] + "/content").content.decode("utf-8-sig").splitlines()[0].split(",")
    assert f"| `all` | job | {', '.join(f'`{name}`' for name in columns)} |" in reader.text

    (tmp_path / "sources.toml").write_text(re.search(r"```toml\n(.*?)```", reader.text, re.DOTALL)[1], "utf-8")
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    [shop] = read_sources(settings.load({}, data_sources=tmp_path / "sources.toml"))
    assert list(shop.queries["orders"].params) == ["since", "status"]
    assert all((ROOT / f"requirements-{word}.txt").exists() for word in re.findall(r"\./run install (\w+)", reader.text))
