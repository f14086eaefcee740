"""Commands of the operator through the whole running server."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile

import pytest
import requests

from tests.stack import ROOT, Stack, alive, descendants, wait_for

PROBE = "import json, os, sys; print('50 %'); print(json.dumps([sys.argv[1:], sorted(os.environ), os.getcwd()]))"
PATIENT = """import os, sys, time
open(sys.argv[1], 'w').write('half')
print('40 %', flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
open(sys.argv[1], 'a').write(' and half')"""
GREEDY = "import os, sys; print(os.path.basename(sys.argv[1])); open(sys.argv[1], 'a').write('spoilt'); os.remove(sys.argv[1])"
CHATTER = """import os, sys
print('wait ...%', flush=True)
print('1.2.3%', flush=True)
for _ in range(800): os.write(1, b'x' * 65536)
os.write(1, b'\\\\n')
for _ in range(160): os.write(2, b'y' * 65536)
print('the end')"""
COMMANDS = f'''
[probe]
title = "Probe"
argv = ["{sys.executable}", "-c", """{PROBE}""", "{{text}}", "--name={{name}}", "{{loud}}", "--level={{level}}"]
percent = "([0-9]+) %"
env = {{ GREETING = "hello" }}
[probe.parameters.text]
kind = "text"
[probe.parameters.name]
kind = "text"
required = false
[probe.parameters.loud]
kind = "flag"
word = "--loud"
[probe.parameters.level]
kind = "integer"
default = 3

[ends]
argv = ["{sys.executable}", "-c", "import sys; print('so it is', file=sys.stderr); sys.exit(int(sys.argv[1]))", "{{code}}"]
[ends.parameters.code]
kind = "integer"
[ends.exits]
3 = {{ title = "nobody is there", status = 424 }}
4 = {{ title = "busy", retry = "1h" }}

[copy]
argv = ["cp", "{{source}}", "{{copy}}"]
[copy.parameters.source]
kind = "file"
[copy.outputs.copy]
file = "copy.txt"
[copy.outputs.more]
file = "more.txt"
optional = true

[forgetful]
argv = ["true", "{{made}}"]
[forgetful.outputs.made]
file = "made.txt"

[patient]
argv = ["{sys.executable}", "-c", """{PATIENT}""", "{{half}}", "{{sign}}"]
percent = "([0-9]+) %"
[patient.parameters.sign]
kind = "text"
[patient.outputs.half]
file = "half.txt"

[greedy]
argv = ["{sys.executable}", "-c", """{GREEDY}""", "{{source}}"]
[greedy.parameters.source]
kind = "file"

[chatter]
argv = ["{sys.executable}", "-c", """{CHATTER}"""]
percent = "([0-9.]+)%"
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    (folder / "commands.toml").write_text(COMMANDS + (ROOT / "examples/commands.toml").read_text("utf-8"), "utf-8")
    with Stack(folder, commands=folder / "commands.toml", workers="1", lease="2", heartbeat="500ms") as stack:
        yield stack


@pytest.fixture(scope="module")
def alice(server):
    return server.session("alice")


def log(client, job) -> list[str]:
    return [line["line"] for line in client.get(f"/v1/jobs/{job['id']}/logs").json()["lines"]]


def test_parameters_become_single_words_and_the_environment_is_bare(alice):
    text = "a b; $(id) && `id` | \"'é"
    job = alice.finished(alice.submit("command.probe", text=text, loud=True)["id"])
    assert job["status"] == "succeeded" and job["result"] == {"exitCode": 0, "files": []}
    [said] = [line for line in log(alice, job) if '[["' in line]
    argv, environment, folder = json.loads(said[said.index('[["'):])
    assert argv == [text, "--loud", "--level=3"]       # no name was given
    assert {"PATH", "HOME", "GREETING"} <= set(environment) and not [name for name in environment if name.startswith("ACCEPTED_")]
    assert not os.path.exists(folder)


@pytest.mark.parametrize(("payload", "pointer"), [
    ({}, "#/payload/text"), ({"text": "-rf"}, "#/payload/text"), ({"text": "a\nb"}, "#/payload/text"),
    ({"text": "a", "level": "high"}, "#/payload/level"), ({"text": "a", "argv": "x"}, "#/payload/argv")])
def test_what_does_not_fit_is_refused_at_once(alice, payload, pointer):
    answer = alice.post("/v1/jobs", json={"type": "command.probe", "payload": payload})
    assert answer.status_code == 422 and [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


def test_an_exit_status_means_what_the_file_says(alice):
    jobs = {code: alice.submit("command.ends", {"maxAttempts": 2}, code=code)["id"] for code in (0, 3, 4, 5)}
    busy = alice.submit("command.ends", {"maxAttempts": 1}, code=4)["id"]
    assert alice.finished(jobs[0])["status"] == "succeeded"
    errors = {code: alice.finished(jobs[code])["error"] for code in (3, 5)}
    assert {error["type"].rpartition("/")[2] for error in errors.values()} == {"command-failed"}
    assert (errors[3]["status"], errors[3]["detail"]) == (424, "ends ended with 3: nobody is there")
    assert (errors[5]["status"], errors[5]["detail"]) == (422, "ends ended with 5: so it is")
    assert {code: error["exitCode"] for code, error in errors.items()} == {3: 3, 5: 5}
    last = alice.finished(busy)["error"]
    assert (last["type"].rpartition("/")[2], last["detail"], last["exitCode"]) == ("command-failed", "ends ended with 4: busy", 4)
    waiting = wait_for(lambda: (now := alice.job(jobs[4]))["nextAttemptAt"] and now["attempt"] == 1 and now, what="a second attempt")
    assert waiting["status"] == "queued"
    alice.delete(f"/v1/jobs/{jobs[4]}")


def test_files_go_in_and_come_out(alice):
    url = alice.post("/v1/files", params={"name": "in.txt"}, data="naïve".encode()).json()["url"]
    job = alice.finished(alice.submit("command.copy", source=url)["id"])
    [made] = job["result"]["files"]
    assert made["artifact"].startswith("/v1/artifacts/")
    assert made["name"] == "copy.txt" and requests.get(made["download_url"], timeout=60).content.decode() == "naïve"
    assert [one["name"] for one in alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]] == ["copy.txt"]
    failed = alice.finished(alice.submit("command.forgetful")["id"])
    assert failed["error"]["detail"] == "forgetful ended with 0 but did not make made.txt."


def test_what_a_command_does_to_its_input_the_upload_does_not_feel(alice):
    url = alice.post("/v1/files", params={"name": "größe; $(id) 1.txt"}, data=b"good").json()["url"]
    job = alice.finished(alice.submit("command.greedy", source=url)["id"])
    assert job["status"] == "succeeded" and log(alice, job) == ["größe_id_1.txt"]
    assert alice.get(url).content == b"good"


def test_whatever_a_command_prints_does_no_harm(alice):
    """A percent that is none, fifty megabytes without the end of a line, ten more of errors."""
    job = alice.finished(alice.submit("command.chatter")["id"], timeout=240)
    lines = log(alice, job)
    assert (job["status"], job["attempt"], lines[:2]) == ("succeeded", 1, ["wait ...%", "1.2.3%"])
    assert alice.get(f"/v1/jobs/{job['id']}/logs", params={"after": 900}).json()["lines"]


def programs(server) -> list[int]:
    return [pid for pid, line in descendants(server.process.pid).items() if "half.txt" in line]


def started(server, alice, sign) -> tuple[str, int]:
    """A job whose program has come to 40 % and waits for `sign`: its id, and the program's pid. Nothing of it can be seen."""
    job = alice.submit("command.patient", sign=str(sign))["id"]
    wait_for(lambda: alice.job(job)["progress"] == 40, what="progress")
    assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []
    return job, programs(server)[0]


def nothing_lies_about(server, job) -> bool:
    return not list((server.data / "work").glob(f"{job}-*"))


def test_a_cancel_ends_the_program(server, alice, tmp_path):
    job, pid = started(server, alice, tmp_path / "sign")
    alice.delete(f"/v1/jobs/{job}")
    assert alice.finished(job)["status"] == "cancelled"
    wait_for(lambda: not alive(pid) and nothing_lies_about(server, job), what="its end")
    assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []


@pytest.mark.parametrize("who", ["worker", "program"])
def test_after_a_death_the_next_attempt_succeeds(server, alice, tmp_path, who):
    job, pid = started(server, alice, tmp_path / "sign")
    os.kill(server.pids("worker")[0] if who == "worker" else pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid), what="the program's end")
    assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []
    (tmp_path / "sign").touch()
    done = alice.finished(job)
    assert (done["status"], done["attempt"]) == ("succeeded", 2)
    [made] = done["result"]["files"]
    assert requests.get(made["download_url"], timeout=60).text == "half and half"
    wait_for(lambda: nothing_lies_about(server, job), what="no temporary folder")


def test_each_command_has_a_form_and_a_schema(alice):
    found = {entry["name"]: entry for entry in alice.get("/v1/job-types").json()["jobTypes"]}
    assert found["command.probe"]["title"] == "Probe" and found["command.probe"]["payload"]["required"] == ["text"]
    assert found["command.copy"]["payload"]["properties"]["source"]["format"] == "uri-reference"
    assert found["command.probe"]["payload"]["properties"]["level"] == {"type": "integer", "title": "Level", "default": 3}


@pytest.mark.needs("curl", "tar")
@pytest.mark.parametrize("page", ["commands.md", "fetch.md"])
def test_the_commands_of_the_page_work(server, page, tmp_path):
    client, text = server.session("reader"), (ROOT / "docs" / page).read_text("utf-8")
    (tmp_path / "notes.txt").write_text("a note")
    lines = re.findall(r"^curl .*$", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", ""), re.MULTILINE)
    url = "/v1/artifacts/7/"
    for line in lines:
        environment = {"PATH": os.environ["PATH"], "ACCEPTED_URL": server.url, "ACCEPTED_KEY": client.key}
        said = subprocess.run(["sh", "-c", line.replace("/v1/artifacts/7/", url)], cwd=tmp_path, env=environment,
                              capture_output=True, text=True).stdout
        url = json.loads(said)["url"].removesuffix("content") if "file=@" in line else url
    assert said.startswith("HTTP/1.1 202"), said
    job = json.loads(said.splitlines()[-1])
    if page == "commands.md":
        [made] = client.finished(job["id"])["result"]["files"]
        (tmp_path / "packed.tar").write_bytes(requests.get(made["download_url"], timeout=60).content)
        assert tarfile.open(tmp_path / "packed.tar", "r:bz2").getnames()
    else:
        client.delete(f"/v1/jobs/{job['id']}")      # that host need not be reached from here


def test_a_wrong_file_stops_the_start(stack, tmp_path):
    (tmp_path / "wrong.toml").write_text('[a]\nargv = ["no-such-program-7"]\n')
    stack.settings["commands"] = str(tmp_path / "wrong.toml")
    refused = subprocess.run([sys.executable, "-m", "jobs.cli", "start"], cwd=ROOT, env=stack.environment, capture_output=True,
                             text=True, timeout=120)
    assert refused.returncode == 3 and "wrong.toml, [a]: there is no program 'no-such-program-7'" in refused.stderr
