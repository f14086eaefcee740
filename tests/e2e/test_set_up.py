"""`./run` before Python is there: what it checks, makes, and leaves behind. The Pythons here are small shell scripts."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.cli import cli
from tests.stack import ROOT, alive, wait_for

TOOLS = ["cat", "cksum", "dirname", "mkdir", "readlink", "rm", "sleep", "sh"]
WHOLE = f'exec {sys.executable} "$@"'
OLD = 'case "$*" in *version_info*) exit 1 ;; esac\n' + WHOLE
BARE = 'case "$*" in *ensurepip*) exit 1 ;; esac\n' + WHOLE
# Makes a "virtual environment" whose Python tells what it is asked, and stays away from the network.
QUICK = r'''
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; echo venv >>"$LOG"
    printf '#!/bin/sh\ncase "$*" in *sys.version*) echo 3.x ;; *) echo "$*" >>"$LOG" ;; esac\n' >"$3/bin/python"; chmod +x "$3/bin/python" ;;
  *--version*) echo Python 3.x ;;
esac
'''


class Checkout:
    """A checkout with nothing but what set-up reads, and a PATH of its own."""

    def __init__(self, folder: Path):
        self.folder, self.bin, self.log = folder / "checkout", folder / "bin", folder / "log"
        self.folder.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "run", self.folder)
        for file in ROOT.glob("requirements*.txt"):
            shutil.copy(file, self.folder)
        for tool in (*TOOLS, "chmod", "env"):
            (self.bin / tool).symlink_to(shutil.which(tool))

    def python(self, name: str, script: str) -> None:
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def start(self, *args: str, path: str | None = None, cwd: Path | None = None) -> subprocess.Popen:
        self.log.touch()
        return subprocess.Popen([path or self.folder / "run", *args], cwd=cwd or self.folder, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                env={"PATH": str(self.bin), "LOG": str(self.log), "HOME": str(self.folder)})

    def run(self, *args: str, **where: Path | str) -> tuple[int, str]:
        """(exit code, output)"""
        process = self.start(*args, **where)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def asked(self) -> list[str]:
        """What was asked of the Pythons since the last time."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return lines

    def leftovers(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if path.name.startswith(".venv")]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.mark.parametrize("script, words", [(None, "Python 3.11 or newer"), (OLD, "Python 3.11 or newer"), (BARE, "no venv and ensurepip")])
def test_what_is_missing_is_named_before_anything_is_made(checkout, script, words):
    if script:
        checkout.python("python3", script)
    code, output = checkout.run()
    assert code == 3
    assert words in output and "apt-get install" in output and "python3-venv" in output
    assert checkout.leftovers() == []


def test_another_python_is_used_where_the_first_will_not_do(checkout):
    checkout.python("python3", BARE)
    checkout.python("python3.12", QUICK)
    code, output = checkout.run()
    assert code == 0, output
    assert checkout.asked()[0] == "venv"


def test_a_second_start_installs_nothing(checkout):
    checkout.python("python3", QUICK)
    assert checkout.run("start")[0] == 0
    first = checkout.asked()
    assert first[0] == "venv" and first[-1] == "-m jobs.cli start"
    assert "--only-binary :all: -r requirements.txt" in first[1]
    assert checkout.run("start")[0] == 0
    assert checkout.asked() == ["-m jobs.cli start"]


def test_changed_requirements_are_installed_in_place(checkout):
    checkout.python("python3", QUICK)
    checkout.run("start")
    checkout.asked()
    with (checkout.folder / "requirements.txt").open("a") as file:
        file.write("# changed\n")
    assert checkout.run("start")[0] == 0
    install, start = checkout.asked()
    assert "pip install" in install


def test_a_moved_checkout_is_set_up_anew(checkout):
    checkout.python("python3", QUICK)
    checkout.run()
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("moved"))
    checkout.asked()
    checkout.run()
    assert checkout.asked()[0] == "venv"


def test_the_tests_requirements_come_with_the_tests(checkout):
    checkout.python("python3", QUICK)
    code, output = checkout.run("test", "-k", "one")
    assert code == 0, output
    assert [line.split()[-1] for line in checkout.asked()] == ["venv", "requirements.txt", "requirements-test.txt", "one"]
    checkout.run("test")
    assert checkout.asked() == ["-m pytest -n 2 --dist loadfile"]


def test_extras_are_added_by_name(checkout):
    checkout.python("python3", QUICK)
    assert checkout.run("install", "postgres")[0] == 0
    assert checkout.asked()[-1].endswith("-r requirements-postgres.txt")
    code, output = checkout.run("install", "sugar")
    assert code == 2 and "requirements-sugar.txt" in output and "postgres" in output
    code, output = checkout.run("install")
    assert code == 2 and re.search("EXTRA is one of: ai .*postgres", output)


def test_a_failed_installation_leaves_nothing(checkout):
    checkout.python("python3", QUICK.replace('echo "$*" >>"$LOG"', "echo no network; exit 1"))
    code, output = checkout.run()
    assert code == 3 and "no network" in output and "could not be installed" in output
    assert checkout.leftovers() == []


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_set_up_leaves_nothing(checkout, signum, code):
    checkout.python("python3", QUICK.replace("echo venv", "echo $$ >>$LOG; exec sleep 1000"))
    process = checkout.start()
    wait_for(lambda: checkout.log.read_text().strip(), what="the set-up to begin")
    os.killpg(process.pid, signum)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == code, output
    assert checkout.leftovers() == []
    assert not alive(int(checkout.log.read_text()))


def test_two_at_once_set_up_once(checkout):
    checkout.python("python3", QUICK.replace("echo venv", "sleep 2; echo venv"))
    both = [checkout.start() for _ in range(2)]
    outputs = [process.communicate(timeout=30)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert checkout.asked().count("venv") == 1
    assert checkout.leftovers() == [".venv"]


def test_what_a_killed_set_up_left_is_cleared(checkout):
    checkout.python("python3", QUICK)
    (checkout.folder / ".venv-making").mkdir()
    (checkout.folder / ".venv-making/pid").write_text("999999999\n")
    (checkout.folder / ".venv/bin").mkdir(parents=True)
    assert checkout.run()[0] == 0
    assert checkout.asked()[0] == "venv"
    assert checkout.leftovers() == [".venv"]


def test_it_works_from_any_folder_and_through_symbolic_links(checkout, tmp_path):
    checkout.python("python3", QUICK)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link").symlink_to("../second")
    (tmp_path / "second").symlink_to(checkout.folder / "run")
    code, output = checkout.run("settings", path="./link", cwd=tmp_path / "elsewhere")
    assert code == 0, output
    assert checkout.leftovers() == [".venv"]


def test_help_lists_every_command_and_needs_no_set_up(checkout):
    code, output = checkout.run("--help")
    assert code == 0
    for name, command in cli.commands.items():
        assert command.hidden or f"  {name}" in output, name
    for name in (*cli.commands["key"].commands, *cli.commands["secrets"].commands, "test", "install"):
        assert name in output
    assert checkout.leftovers() == []
