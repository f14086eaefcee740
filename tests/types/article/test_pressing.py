"""The press under a worker: limits, kills and cancels leave nothing half made."""

import json
import os
import signal
import subprocess
import sys

import pytest

from jobs import Problem, settings
from jobs.artifacts.store import open_store
from jobs.types.article.order import fault_of
from tests.stack import ROOT, processes
from tests.work.house import House, alive, wait_for

PATIENCE = 240      # seconds, for a machine that does much else
LONG = "# 很长\n\n```python\n" + 'x = [1, 2, "三"]  # 注释\n' * 6000 + "```\n"      # seconds of work


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The operator's articles."""
    folder = tmp_path_factory.mktemp("articles")
    for topic, text in {"long": LONG, "short": "# 短\n\n一段话。\n", "odd": "# Fine\n"}.items():
        (folder / topic).mkdir()
        (folder / topic / "a.md").write_text(text, "utf-8")
    (folder / "odd" / "b.md").write_bytes(bytes(range(128, 256)) * 9)
    return folder


@pytest.fixture(scope="module")
def house(library, tmp_path_factory):
    """A working house whose worker does not die."""
    folder = tmp_path_factory.mktemp("house")
    with House(folder, articles_dir=library, job_modules="", lease="60") as house:       # no attempt is lost by a stall
        house.start("dispatcher"), house.start("worker")
        yield house


def presses(house) -> list[int]:
    """The pids of the presses that work for this house."""
    ours = str(house.settings.data_dir)
    return [pid for pid, (_, line) in processes().items() if "article.press" in line and ours in line]


def pressed(house, id) -> int:
    """The pid of the press once it is setting this job's articles."""
    wait_for(lambda: house.job(id).stage == "layout", PATIENCE, f"the layout of job {id}; {house.job(id)}")
    return wait_for(lambda: presses(house), PATIENCE, "the press")[0]


def artifacts(house, id) -> list:
    return house.db.read().all("SELECT * FROM artifacts WHERE job_id = :id AND state = 'whole'", id=id)


def nothing_left(house) -> bool:
    folder = house.settings.data_dir / "work"
    return not presses(house) and not (folder.exists() and list(folder.iterdir()))


def test_an_article_that_cannot_be_read_is_named_and_the_rest_is_made(house):
    job = house.finished(house.submit("article.export", format="html", topic="odd"), PATIENCE)
    assert job.status == "partialSuccess" and '"articles":1' in job.result and "b.md" in job.error


def test_a_topic_that_has_gone_fails_with_advice(house):
    id = house.submit("article.export", format="pdf", topic="gone")
    assert house.finished(id, PATIENCE).status == "failed"
    assert house.error(id)["type"].endswith("/nothing-to-export") and "Ask the operator" in house.error(id)["detail"]


def test_cancelling_ends_the_press_and_leaves_nothing(house):
    id = house.submit("article.export", format="pdf", topic="long")
    press = pressed(house, id)
    house.cancel(id)
    assert house.finished(id, PATIENCE).status == "cancelled"
    wait_for(lambda: not alive(press) and nothing_left(house), PATIENCE, "everything to be gone")
    assert artifacts(house, id) == []


def test_a_press_that_is_killed_is_no_fault_of_the_article(house, library):
    id = house.submit("article.export", format="pdf", topic="long")
    os.kill(pressed(house, id), signal.SIGKILL)
    wait_for(lambda: house.attempts(id) and house.attempts(id)[0].outcome, PATIENCE, "the end of the attempt")
    assert house.job(id).status in ("queued", "running") and "press ended with -9" in house.attempts(id)[0].error
    house.cancel(id)
    assert house.finished(id, PATIENCE).status == "cancelled"
    wait_for(lambda: nothing_left(house), PATIENCE, "everything to be gone")


def test_what_takes_too_long_fails_with_advice(library, tmp_path):
    with House(tmp_path, articles_dir=library, job_modules="", lease="60", render_timeout="1") as house:
        house.start("dispatcher"), house.start("worker")
        id = house.submit("article.export", format="pdf", topic="long")
        job = house.finished(id, PATIENCE)
        assert (job.status, job.attempt) == ("failed", 1)
        error = house.error(id)
        assert error["type"].endswith("/problems/export-render-failed") and error["status"] == 422
        assert "longer than 1 seconds" in error["detail"] and "ACCEPTED_RENDER_TIMEOUT" in error["detail"]
        assert artifacts(house, id) == [] and "/tmp" not in job.error
        wait_for(lambda: nothing_left(house), PATIENCE, "everything to be gone")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")
@pytest.mark.parametrize("megabytes", [40, 120])
def test_what_takes_too_much_memory_fails_with_advice(library, tmp_path, megabytes):
    article = {"name": "a.md", "path": str(library / "long" / "a.md")}
    (tmp_path / "order.json").write_text(json.dumps({
        "format": "pdf", "title": None, "articles": [article], "folder": None, "files": {}, "fonts": None,
        "seconds": 600, "memory": megabytes * 1024**2}))
    command = [sys.executable, "-m", "jobs.types.article.press", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    problem = fault_of(ended.returncode, [], ended.stderr, settings.load({}, render_memory=f"{megabytes}m"))
    assert isinstance(problem, Problem) and problem.slug == "export-render-failed", (ended, problem)
    assert f"more than {megabytes} MB" in problem.detail and "ACCEPTED_RENDER_MEMORY" in problem.detail
    assert not (tmp_path / "made").exists()


def test_a_worker_killed_in_the_middle_leaves_nothing_and_the_retry_succeeds(tmp_path):
    topic = tmp_path / "articles" / "book"
    topic.mkdir(parents=True)
    (topic / "a.md").write_text(LONG, "utf-8")
    with House(tmp_path, articles_dir=topic.parent, job_modules="", lease="4") as house:
        house.start("dispatcher")
        worker = house.start("worker")
        id = house.submit("article.export", max_attempts=9, format="pdf", topic="book")
        press = pressed(house, id)
        (topic / "a.md").write_text("# 短\n", "utf-8")       # the second attempt is not what is slow here
        worker.kill()
        wait_for(lambda: not alive(press), PATIENCE, "the press to die with its worker")
        assert artifacts(house, id) == []
        house.start("worker")
        job = house.finished(id, PATIENCE)
        assert job.status == "succeeded" and job.attempt >= 2
        [artifact] = artifacts(house, id)
        with open_store(house.settings).open(artifact.key) as file:
            assert file.read(5) == b"%PDF-"
        wait_for(lambda: nothing_left(house), PATIENCE, "everything to be gone")
