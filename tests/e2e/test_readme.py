"""What the README tells a newcomer to do works as written."""

import re
import subprocess

import pytest

from jobs.cli import cli
from tests.stack import ROOT

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.needs("curl")
def test_its_curl_lines_work(server):
    submit, follow = (block for block in blocks("sh") if block.startswith("curl"))

    def run(command):
        here = command.replace("http://127.0.0.1:8202", server.url).replace("var/admin.key", str(server.data / "admin.key"))
        done = subprocess.run(["sh", "-c", here.strip() + " -s --max-time 30"], capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout

    submitted = run(submit)
    assert submitted.startswith("HTTP/1.1 202") and "\nlocation: http" in submitted.lower()
    assert "event: done" in run(follow)


def test_its_job_type_works(stack, tmp_path):
    (tmp_path / "greetings").mkdir()
    (tmp_path / "greetings/greet.py").write_text(blocks("python")[0])
    stack.settings["job_modules"] = str(tmp_path / "greetings")
    stack.start()
    alice = stack.session("alice")
    job = alice.finished(alice.submit("greet.everyone", names=["Ada", "Grace"])["id"])
    assert job["status"] == "succeeded" and job["result"] == {"greeted": 2}
    artifact, = alice.get(job["links"]["artifacts"]).json()["artifacts"]
    assert alice.get(f"/v1/artifacts/{artifact['id']}/content").text == "Hello, Ada!\nHello, Grace!\n"


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_its_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_its_commands_exist():
    used = set(re.findall(r"^\S*\s*\./run +([a-z][a-z-]*)", "\n".join(blocks("sh")), re.MULTILINE))
    assert used <= {*cli.commands, "test", "install"}
