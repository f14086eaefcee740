"""Reading text through the whole running server: upload, submit, watch, kill, fetch."""

import json
import os
import signal

import pytest

from tests.scans import LINES, SIZE, scans  # noqa: F401
from tests.stack import descendants, wait_for

pytestmark = pytest.mark.extra("ai", "rapidocr", "onnxruntime", "pypdfium2", "PIL")


@pytest.fixture(scope="module")
def alice(server):
    return server.session("alice")


def upload(client, path) -> str:
    """The url of the uploaded file."""
    with path.open("rb") as file:
        return client.post("/v1/files", params={"name": path.name}, data=file).json()["url"]


def read(client, path, **more) -> dict:
    """The job, accepted."""
    return client.submit("ocr.read", sourceUrl=upload(client, path), **more)


def texts(page) -> list[str]:
    return [line["text"] for line in page["lines"]]


def held(server, client, path) -> tuple[dict, int]:
    """A running job and the pid of the process that reads for it, which stands still."""
    for _ in range(5):
        job = read(client, path)
        reader = wait_for(lambda: child(server) or client.job(job["id"])["finishedAt"], 60, "the process that reads")
        if isinstance(reader, int):
            os.kill(reader, signal.SIGSTOP)
            if reader in descendants(server.process.pid):
                return job, reader
    raise AssertionError("each time it was through before it could be held")


def child(server) -> int | None:
    """The pid of the process that reads."""
    return next((pid for pid, line in descendants(server.process.pid).items()
                 if "jobs.types.ocr.child" in line and "python" in line.split()[0]), None)


def test_every_page_of_a_book_is_read_and_a_torn_one_named(server, alice, scans, tmp_path):  # noqa: F811
    from PIL import Image
    from tests.scans import draw
    book = tmp_path / "book.tif"
    draw().save(book, save_all=True, compression="tiff_adobe_deflate", append_images=[
        draw(["Torn page"]), draw(["Second page", "第二页"]).convert("1"), draw(["Third page", "第三页"]).convert("CMYK")])
    with Image.open(book) as pages:
        pages.seek(1)
        at = pages.tag_v2[273][0]       # where the strip of pixels lies
    with book.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 60)

    job = alice.submit("ocr.read", sourceUrl=upload(alice, book))
    stages = [(frame["progress"], frame["stage"]) for frame in alice.frames(job["id"])]
    job = alice.job(job["id"])
    assert job["status"] == "partialSuccess", job
    [torn] = job["error"]["errors"]
    assert "page 2" in json.dumps(torn) and "damaged" in torn["detail"]
    assert "reading page 4 of 4" in {stage for _, stage in stages}
    assert [progress for progress, _ in stages] == sorted(progress for progress, _ in stages)

    result = job["result"]
    assert (result["pageCount"], result["lineCount"]) == (3, 8)
    assert [(page["page"], page["width"], page["height"], page["unit"]) for page in result["pages"]] == [
        (number, *SIZE, "px") for number in (1, 3, 4)]
    assert [texts(page) for page in result["pages"]] == [LINES, ["Second page", "第二页"], ["Third page", "第三页"]]
    reading = alice.get(job["resource"]).json()
    assert reading["status"] == "ready" and reading["files"] == result["files"] and "pages" not in reading
    pages, text = result["files"]
    assert alice.get(pages["href"]).json() == {"pages": result["pages"]}
    answer = alice.get(text["href"])
    assert answer.content.decode() == "\f".join("".join(f"{line}\n" for line in texts(page)) for page in result["pages"])
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert alice.get(text["download_url"], headers={"Authorization": None}).content == answer.content
    assert not list((server.data / "work").glob(f"{job['id']}-*"))


def test_a_page_of_a_pdf_is_read_by_itself(alice, scans, tmp_path):  # noqa: F811
    from tests.scans import draw
    draw().save(tmp_path / "two.pdf", save_all=True, append_images=[draw(["Page two", "第二页"])], resolution=144)
    job = alice.finished(read(alice, tmp_path / "two.pdf", firstPage=2)["id"], 240)
    assert job["status"] == "succeeded", job
    [page] = job["result"]["pages"]
    assert (page["page"], page["width"], page["height"], page["unit"]) == (2, 200, 130, "pt")
    assert texts(page) == ["Page two", "第二页"]
    (left, top), *_ = page["lines"][0]["box"]
    assert abs(left - 10) < 6 and abs(top - 12) < 8      # in points, from the page's upper left corner


def test_what_cannot_be_read_fails_at_once_and_says_why(alice, tmp_path):
    from PIL import Image
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    (tmp_path / "notes.pdf").write_text("only words")
    for name, words in (("bomb.png", "at most 100 million"), ("notes.pdf", "Found: text")):
        job = alice.finished(read(alice, tmp_path / name)["id"], 240)
        assert (job["status"], job["attempt"]) == ("failed", 1), job
        assert job["error"]["type"].endswith("/problems/source-unreadable") and job["error"]["status"] == 422
        assert words in job["error"]["detail"]
        assert alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"] == []
        assert alice.get(job["resource"]).json()["status"] == "failed"


def test_a_cancel_ends_the_process_at_once(server, alice, scans):  # noqa: F811
    job, reader = held(server, alice, scans / "book.tif")
    assert alice.post(f"/v1/jobs/{job['id']}:cancel").status_code == 202
    assert alice.finished(job["id"], 240)["status"] == "cancelled"
    wait_for(lambda: reader not in descendants(server.process.pid), 30, "the process to be gone")
    assert alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"] == []


def test_a_worker_killed_in_the_middle_leaves_nothing_and_the_next_attempt_succeeds(server, alice, scans):  # noqa: F811
    (job, reader), work = held(server, alice, scans / "turned.jpg"), server.data / "work"
    assert list(work.glob(f"{job['id']}-1/*/pages.json"))
    [worker] = server.pids("worker")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: reader not in descendants(server.process.pid), 30, "the first process to be gone")
    assert alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"] == []
    job = alice.finished(job["id"], 240)
    assert (job["status"], job["attempt"]) == ("succeeded", 2), job
    [page] = job["result"]["pages"]
    assert (texts(page), page["width"], page["height"]) == (LINES, *SIZE)
    left = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    assert {one["name"] for one in left} == {"pages.json", "text.txt"}
    wait_for(lambda: not list(work.glob(f"{job['id']}-*")), 30, "the temporary folders to be gone")
