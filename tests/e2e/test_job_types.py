"""The authors' API as a newcomer meets it: the tutorial, the examples, and declarations that cannot work."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import requests

from tests.stack import ROOT, Stack, alive, descendants, wait_for
from tests.web.pages import Browser

PAGE = (ROOT / "docs/job-types.md").read_text(encoding="utf-8")


SUGARED = """from jobs import job_type

@job_type("cake.bake", collection="cakes", requires=("no_such_library",), extra="sugar")
def bake(job):
    '''Bake a cake.'''
    import no_such_library
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the tutorial, as the page gives them."""
    folder = tmp_path_factory.mktemp("tutorial")
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "team_jobs" / "sugared.py").write_text(SUGARED)
    return folder / "team_jobs"


@pytest.fixture(scope="module")
def team(folder, tmp_path_factory):
    """A server with the tutorial's type and the examples."""
    place = tmp_path_factory.mktemp("team")
    with pytest.MonkeyPatch.context() as outside:
        outside.setenv("SANDBOXES", str(place / "sandboxes"))
        with Stack(place, job_modules=f"{folder},{ROOT / 'examples'}") as stack:
            stack.sandboxes = place / "sandboxes"
            yield stack


@pytest.mark.needs("curl")
def test_the_tutorial_works_line_by_line(team):
    commands = re.findall(r"<!-- run -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    answers = [json.loads(subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, timeout=60, env={
        "PATH": "/usr/bin:/bin", "ACCEPTED_URL": team.url, "ACCEPTED_KEY": team.session("alice").key}).stdout) for command in commands]
    types, result, resource, refusal = answers
    assert "text.count" in [entry["name"] for entry in types["jobTypes"]]
    assert result == {"words": 6, "top": ["to", "be"]}
    assert (resource["status"], resource["words"]) == ("ready", 6)
    assert {error["pointer"] for error in refusal["errors"]} == {"#/text", "#/top"}


def test_its_words_are_shown_in_the_readers_language(team):
    amy = Browser(team.url, "zh-TW").sign_in(team.session("amy").key)
    page = amy.submit("tea.make", amy.form("tea.make"), **{"payload.kind": "green", "payload.cups": "9"})
    for text in ("<h1>泡茶</h1>", ">綠茶<", ">紅茶<", "最多 4 杯。", "名稱"):
        assert text in page, text


def test_a_dropped_file_appears_everywhere(team):
    alice = team.session("alice")
    document = alice.get("/openapi.json").json()
    assert {"/v1/word-counts", "/v1/word-counts/{id}", "/v1/site-checks"} <= set(document["paths"])
    assert "text.count" in [variant["title"] for variant in document["components"]["schemas"]["Submission"]["oneOf"]]


def test_the_tutorials_job_leaves_its_file_and_its_log(team):
    alice = team.session("alice")
    job = alice.finished(alice.submit("text.count", text="a b\na")["id"])
    assert job["result"]["words"] == 3
    [artifact] = alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]
    assert alice.get(artifact["url"]).text == "a,2\nb,1\n"
    assert "2 different words" in alice.get(f"/v1/jobs/{job['id']}/logs").text
    failed = alice.finished(alice.submit("text.count", text=" ")["id"])
    assert (failed["status"], failed["error"]["type"].rpartition("/")[2]) == ("failed", "nothing-to-count")


def test_a_type_whose_packages_are_missing_is_listed_and_takes_no_jobs(team):
    alice, hint = team.session("alice"), "./run install sugar"
    types = {entry["name"]: entry["unavailable"] for entry in alice.get("/v1/job-types").json()["jobTypes"]}
    assert hint in types["cake.bake"] and types["text.count"] is None
    for path, body in (("/v1/jobs", {"type": "cake.bake", "payload": {}}), ("/v1/cakes", {})):
        answer = alice.post(path, json=body)
        assert answer.status_code == 422 and answer.json()["type"].endswith("/problems/type-unavailable")
        assert hint in answer.json()["detail"]
    assert alice.get("/v1/cakes").json()["cakes"] == []
    browser, page = requests.Session(), f"{team.url}/ui/sign-in"
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', browser.get(page).text)) | {"key": alice.key}
    assert browser.post(page, data=fields, headers={"Origin": team.url}).ok
    for path in ("/ui/types", "/ui/new", "/ui/new/cake.bake"):
        assert hint in browser.get(team.url + path).text, path


def test_the_greetings_example(team):
    alice = team.session("alice")
    job = alice.finished(alice.submit("greet.everyone", names=["Ada", "顾"])["id"])
    assert job["result"]["greeted"] == 2
    assert alice.get(job["result"]["file"] + "/content").content.decode() == "Hello, Ada!\nHello, 顾!\n"


def test_the_site_check_example_names_what_it_could_not_reach(team):
    alice = team.session("alice")
    good, bad = f"{team.url}/livez", f"{team.url}/nothing-here"
    job = alice.finished(alice.post("/v1/site-checks", json={"urls": [good, bad]}).headers["Location"].rpartition("/")[2])
    assert job["status"] == "partialSuccess" and list(job["result"]["sizes"]) == [good]
    assert [part["part"] for part in job["error"]["errors"]] == [bad]
    assert alice.get(job["resource"]).json()["urls"] == [good, bad]


def test_the_provisioning_example_leaves_all_or_nothing(team):
    alice = team.session("alice")
    whole = alice.finished(alice.submit("sandbox.provision", name="whole", files=4)["id"])
    assert whole["status"] == "succeeded"
    assert sorted(file.name for file in (team.sandboxes / "whole").iterdir()) == [f"file-{number}" for number in range(4)]
    again = alice.finished(alice.submit("sandbox.provision", name="whole")["id"])
    assert (again["status"], again["error"]["status"]) == ("failed", 409)
    assert (team.sandboxes / "whole").exists()

    half = alice.submit("sandbox.provision", name="half", files=1000)
    wait_for((team.sandboxes / "half" / "file-3").exists)
    alice.post(f"/v1/jobs/{half['id']}:cancel")
    assert alice.finished(half["id"])["status"] == "cancelled"
    wait_for(lambda: not (team.sandboxes / "half").exists())


BAD = {
    "a name with capitals": ('@job_type("Report.Export")', "lower-case words"),
    "an option in the payload": ('@job_type("a.b", payload={"priority": fields.Str()})', "option of every job"),
    "an option under another name": ('@job_type("a.b", payload={"x": fields.Str(data_key="timeout")})', "option of every job"),
    "a reserved collection": ('@job_type("a.b", collection="jobs")', "reserved"),
    "a collection with a slash": ('@job_type("a.b", collection="a/b")', "lower-case plural"),
    "a collection that is taken": ('@job_type("a.b", collection="videos")', "belongs to"),
    "a name that is taken": ('@job_type("demo.drill")', "declared twice"),
    "an unknown keyword": ('@job_type("a.b", retries=3)', "there is no keyword 'retries'"),
    "no parentheses": ("@job_type", "with a name in parentheses"),
    "a member that is no field": ('@job_type("a.b", payload={"x": str})', "write such as fields.Str()"),
    "a field that is a class": ('@job_type("a.b", payload={"x": fields.Str})', "write such as fields.Str()"),
    "an asynchronous handler": ('@job_type("a.b")', "plain function", "async def handler(job): pass"),
    "a handler that yields": ('@job_type("a.b")', "plain function", "def handler(job): yield 1"),
    "a time-out of nothing": ('@job_type("a.b", timeout=0)', "at least 1"),
    "an unknown cancellation": ('@job_type("a.b", cancellation="never")', "cancellation is one of"),
    "a wait that is too long": ('@job_type("a.b", sync_wait=90)', "between 0 and 50"),
    "a handler without a job": ('@job_type("a.b", payload={"x": fields.Str()})', "take", "def handler(x): pass"),
    "a handler that lacks a member": ('@job_type("a.b", payload={"x": fields.Str()})', "take", "def handler(job): pass"),
    "a fault at import": ("import no_such_library\n@job_type('a.b')", "cannot be imported"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_declaration_stops_the_start_with_a_hint(case, tmp_path):
    declaration, hint, *handler = BAD[case]
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "bad.py").write_text("from jobs import job_type\nfrom marshmallow import fields\n\n"
                                               f"{declaration}\n{handler[0] if handler else 'def handler(job, **payload): pass'}\n")
    stack = Stack(tmp_path, job_modules=tmp_path / "types")
    process = stack.command("start")
    assert process.wait(60) not in (0, None)
    last = stack.output().strip().splitlines()
    assert hint in " ".join(last) and "Traceback" not in stack.output()
    assert len(last) < 6, "a hint, not a log"
    assert not descendants(process.pid) and not alive(process.pid)


def test_a_folder_that_is_not_there_stops_the_start(tmp_path):
    stack = Stack(tmp_path, job_modules=tmp_path / "nowhere")
    assert stack.command("start").wait(30) != 0
    assert f"there is no folder {Path(tmp_path / 'nowhere')}" in stack.output()
