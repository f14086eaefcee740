"""The supervisor with small parts. Each runs in a process of its own, since it takes the signals."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.stack import ROOT, alive, descendants, wait_for


class Run:
    """A supervisor in a process of its own; `parts` are Python expressions, `before` is Python to run first."""

    def __init__(self, folder, *parts, drain=5, before=""):
        self.log = folder / "log"
        script = "\n".join([
            "import os, sys", "from jobs.supervisor import Part, Supervisor",
            f"supervisor = Supervisor(dict(os.environ), {drain})", textwrap.dedent(before),
            *(f"supervisor.add({part})" for part in parts),
            "code = supervisor.run()", "print('failure:', supervisor.failure, file=sys.stderr)", "sys.exit(code)"])
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, "-u", "-c", script], cwd=ROOT, stderr=out, stdout=out)

    @property
    def text(self):
        return self.log.read_text()

    def says(self, words):
        wait_for(lambda: words in self.text, what=words)

    def stop(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        return self.process.wait(60)


@pytest.fixture
def run(tmp_path):
    runs = []

    def start(*parts, **options):
        runs.append(Run(tmp_path, *parts, **options))
        return runs[-1]

    yield start
    for started in runs:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()


def sh(name, script, **options):
    return f"Part({name!r}, ['sh', '-c', {script!r}], **{options!r})"


def test_what_parts_say_comes_with_their_names(run):
    started = run(sh("singer", "echo WARNING la; echo INFO x hidden; echo INFO accepted.jobs job 1; printf unfinished; exec sleep 100"))
    started.says("singer     INFO accepted.jobs job 1")
    assert "singer     WARNING la" in started.text and "hidden" not in started.text
    assert started.stop() == 0
    assert "singer     unfinished" in started.text


def test_a_part_that_dies_is_started_again(run):
    started = run(sh("mortal", "echo here I am; sleep 0.2; exit 7"))
    started.says("ended with exit code 7; it is started again")
    wait_for(lambda: started.text.count("here I am") >= 2, what="the second life")


def test_a_part_that_cannot_live_ends_all(run):
    started = run(sh("steady", "exec sleep 100"), sh("stillborn", "echo because of the weather; exit 3"))
    assert started.process.wait(60) == 1
    failure = started.text.split("failure:")[1]
    assert "stillborn cannot live" in failure and "exit code 3" in failure and "because of the weather" in failure


def test_a_command_that_does_not_exist_is_an_error_at_once(run):
    started = run("Part('ghost', ['/nowhere/at/all'])")
    assert started.process.wait(60) == 1
    assert "/nowhere/at/all" in started.text


def test_the_last_one_out(run):
    slow = "trap 'sleep 0.5; echo slow is gone; exit' TERM; echo up; while :; do sleep 0.1; done"
    redis = "trap 'echo last is gone; exit' TERM; while :; do sleep 0.1; done"
    started = run(sh("last", redis, last=True), sh("slow", slow))
    started.says("up")
    assert started.stop() == 0
    assert started.text.index("slow is gone") < started.text.index("last is gone")


def test_what_does_not_heed_the_signal_is_killed_in_time(run):
    started = run(sh("deaf", "trap '' TERM INT; echo up; while :; do sleep 0.1; done"), drain=1)
    started.says("up")
    family = descendants(started.process.pid)
    began = time.monotonic()
    assert started.stop(signal.SIGINT) == 130
    assert time.monotonic() - began > 0.9
    assert not any(alive(pid) for pid in family)


@pytest.mark.parametrize("how", ["sleep 981", pytest.param("env -i setsid sleep 982", marks=pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux finds who has left the session"))])
def test_what_a_dead_part_leaves_behind_is_swept_up(run, how):
    started = run(sh("parent", f"{how} & echo up; sleep 0.3; kill -9 $$"))
    started.says("signal SIGKILL")
    sleepers = lambda: [line for line in descendants(1).values() if line == how[-9:]]      # noqa: E731
    wait_for(lambda: len(sleepers()) <= 1, what="no more than the present sleeper")
    started.stop()
    assert sleepers() == []


def test_a_terminal_that_stands_still_holds_nothing_up(run, tmp_path):
    """Its stderr is a pipe that nobody reads: lines are dropped, the part goes on."""
    before = """
        reader, writer = os.pipe()
        os.dup2(writer, 2)
    """
    mark = tmp_path / "mark"
    started = run(sh("chatty", f"i=0; while [ $i -lt 20000 ]; do echo a line of some length, number $i; i=$((i+1)); done; touch {mark}; sleep 100"),
                  before=before)
    wait_for(mark.exists, what="the end of the chatter")
    assert started.stop() == 0


def test_a_process_that_keeps_the_turn_to_write_is_killed(run, tmp_path):
    before = f"""
        from pathlib import Path
        from jobs import serve, settings
        from jobs.db import Database
        supervisor.ticks.append(serve._TurnWatch(Database(settings.load({{"ACCEPTED_DATA_DIR": {str(tmp_path)!r}}})), supervisor, 1.0))
    """
    hold = f"import pathlib, time\nfrom jobs.turn import Turn\nwith Turn(pathlib.Path({str(tmp_path)!r}, 'turn.lock')): print('held'); time.sleep(60)"
    started = run(f"Part('miser', [sys.executable, '-u', '-c', {hold!r}])", before=before)
    started.says("held the turn to write")
    started.says("miser      ended with signal SIGKILL")
