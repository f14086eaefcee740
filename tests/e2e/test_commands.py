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

[sleeper]
argv = ["{sys.executable}", "-c", "import os, sys, time; open(sys.argv[1], 'w').write('half'); print('999 %', flush=True); time.sleep(600 if sys.argv[2] == '0' else 0)", "{{half}}", "{{calm}}"]
percent = "([0-9]+) %"
[sleeper.parameters.calm]
kind = "integer"
[sleeper.outputs.half]
file = "half.txt"
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    (folder / "commands.toml").write_text(COMMANDS, "utf-8")
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
    print(log(alice, job))
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
    assert alice.finished(jobs[0])["status"] == "succeeded"
    errors = {code: alice.finished(jobs[code])["error"] for code in (3, 5)}
    assert {error["type"].rpartition("/")[2] for error in errors.values()} == {"command-failed"}
    assert (errors[3]["status"], errors[3]["detail"]) == (424, "ends ended with 3: nobody is there")
    assert (errors[5]["status"], errors[5]["detail"]) == (422, "ends ended with 5: so it is")
    waiting = wait_for(lambda: (now := alice.job(jobs[4]))["nextAttemptAt"] and now["attempt"] == 1 and now, what="a second attempt")
    assert waiting["status"] == "queued"
    alice.delete(f"/v1/jobs/{jobs[4]}")


def test_files_go_in_and_come_out(alice):
    url = alice.post("/v1/files", params={"name": "in.txt"}, data="naïve".encode()).json()["url"]
    job = alice.finished(alice.submit("command.copy", source=url)["id"])
    [made] = job["result"]["files"]
    assert made["name"] == "copy.txt" and requests.get(made["download_url"], timeout=60).content.decode() == "naïve"
    assert [one["name"] for one in alice.get(f"/v1/jobs/{job['id']}/artifacts").json()["artifacts"]] == ["copy.txt"]
    failed = alice.finished(alice.submit("command.forgetful")["id"])
    assert failed["error"]["detail"] == "forgetful ended with 0 but did not make made.txt."


def sleeper(server):
    return next((pid for pid, line in descendants(server.process.pid).items() if "time.sleep(600 if" in line), None)


def test_a_cancel_ends_the_program(server, alice):
    job = alice.submit("command.sleeper", calm=0)["id"]
    pid = wait_for(lambda: sleeper(server), what="the program")
    alice.delete(f"/v1/jobs/{job}")
    assert alice.finished(job)["status"] == "cancelled"
    wait_for(lambda: not alive(pid), what="its end")


def test_a_killed_worker_leaves_nothing_and_the_next_attempt_succeeds(server, alice):
    job = alice.submit("command.sleeper", calm=0)["id"]
    pid = wait_for(lambda: sleeper(server), what="the program")
    [worker] = server.pids("worker")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not alive(pid), what="its end")
    assert alice.get(f"/v1/jobs/{job}/artifacts").json()["artifacts"] == []
    second = wait_for(lambda: (now := sleeper(server)) != pid and now, what="the second attempt")
    assert alice.job(job)["attempt"] == 2
    os.kill(second, signal.SIGKILL)     # killed, not ended: the attempt after it is granted
    third = wait_for(lambda: (now := sleeper(server)) not in (pid, second) and now, what="the third attempt")
    assert alice.job(job)["attempt"] == 3 and third
    alice.delete(f"/v1/jobs/{job}")
    assert alice.finished(job)["status"] == "cancelled"
    wait_for(lambda: not [path for path in (server.data / "work").glob(f"{job}-*")], what="no temporary folder")


def test_each_command_has_a_form_and_a_schema(alice):
    found = {entry["name"]: entry for entry in alice.get("/v1/job-types").json()["jobTypes"]}
    assert found["command.probe"]["title"] == "Probe" and found["command.probe"]["payload"]["required"] == ["text"]
    assert found["command.copy"]["payload"]["properties"]["source"]["format"] == "uri-reference"


@pytest.mark.needs("curl", "tar")
@pytest.mark.parametrize("page", ["commands.md", "fetch.md"])
def test_the_commands_of_the_page_work(stack, page, tmp_path):
    stack.settings["commands"] = str(ROOT / "examples/commands.toml")
    stack.start()
    client, text = stack.session("reader"), (ROOT / "docs" / page).read_text("utf-8")
    (tmp_path / "notes.txt").write_text("a note")
    lines = re.findall(r"^curl .*$", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", ""), re.MULTILINE)
    url = "/v1/artifacts/7/"
    for line in lines:
        environment = {"PATH": os.environ["PATH"], "ACCEPTED_URL": stack.url, "ACCEPTED_KEY": client.key}
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
