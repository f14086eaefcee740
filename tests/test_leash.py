"""Nothing outlives its parent: the watchdog and the sweep of a session."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
from functools import partial

import pytest

from jobs import leash
from tests.stack import ROOT, alive, descendants, wait_for

FAMILY = "sleep 991 & sh -c 'sleep 992 & wait' & wait"


def bears(pid, mark):
    """Whether it does; no for a process that is gone."""
    try:
        return alive(pid) and resource.prlimit(pid, 10)[0] == mark
    except (ProcessLookupError, PermissionError):
        return False


def test_a_session_is_ended_with_all_who_belong_to_it():
    leader = subprocess.Popen(["sh", "-c", FAMILY], start_new_session=True)
    family = wait_for(lambda: len(found := descendants(leader.pid)) >= 3 and found, what="the family")
    leader.kill()
    leader.wait()
    leash.end_all({leader.pid: leash.new_mark()})
    wait_for(lambda: not any(alive(pid) for pid in family), what="their end")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows marks")
def test_who_left_the_session_is_known_by_its_mark():
    marks = [leash.new_mark() for _ in range(2)]
    ours, others = (subprocess.Popen(["env", "-i", "setsid", "-f", "sleep", "996"], preexec_fn=partial(leash.bear, mark))
                    for mark in marks)
    ours.wait(), others.wait()
    sleepers = lambda mark: [pid for pid in descendants(1) if bears(pid, mark)]     # noqa: E731
    wait_for(lambda: all(map(sleepers, marks)), what="the sleepers")
    leash.end_all({ours.pid: marks[0]})
    wait_for(lambda: not sleepers(marks[0]), what="the end of ours")
    assert len(sleepers(marks[1])) == 1
    leash.end_all({others.pid: marks[1]})


def test_the_watchdog_sweeps_up_after_a_killed_parent():
    """As on macOS: no parent-death signal is set here."""
    script = textwrap.dedent(f"""
        import subprocess, time
        from jobs.leash import Watchdog
        dog = Watchdog()
        dog.guard(subprocess.Popen(["sh", "-c", {FAMILY!r}], start_new_session=True).pid, 7)
        time.sleep(1000)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    family = wait_for(lambda: len(found := descendants(parent.pid)) >= 5 and found, what="the family")
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(alive(pid) for pid in family), what="their end")


def test_the_watchdog_spares_what_it_was_told_to_release():
    dog = leash.Watchdog()
    spared = subprocess.Popen(["sleep", "993"], start_new_session=True)
    dog.guard(spared.pid, leash.new_mark())
    dog.release(spared.pid)
    dog.close()
    assert spared.poll() is None
    spared.kill()
    spared.wait()


def test_a_tied_child_dies_with_its_parent():
    script = textwrap.dedent("""
        import os, subprocess, time
        from functools import partial
        from jobs import leash
        subprocess.Popen(["sleep", "994"], preexec_fn=partial(leash.tie_to_parent, os.getpid()))
        time.sleep(1000)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    child, = wait_for(lambda: [pid for pid, line in descendants(parent.pid).items() if "sleep 994" in line], what="the child")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not alive(child), what="its end")


def test_who_descends_from_whom():
    child = subprocess.Popen(["sh", "-c", "sleep 995 & wait"])
    grandchild, = wait_for(lambda: list(descendants(child.pid)), what="the grandchild")
    assert leash.descends(grandchild, os.getpid()) and leash.descends(child.pid, os.getpid())
    assert not leash.descends(os.getpid(), child.pid) and not leash.descends(999_999_999, os.getpid())
    os.kill(grandchild, signal.SIGKILL)
    child.wait()
