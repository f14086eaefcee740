"""The server as its operator sees it: starting, refusing to start, stopping, and parts that die. Real processes throughout."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys

import pytest
import requests

from tests.stack import ROOT, Stack, alive, descendants, wait_for

ROLES = ["web", "worker", "dispatcher", "redis"]
# A job that leaves two generations of processes behind, which know nothing of signals from their parents.
BROOD = '''
import subprocess
from jobs import job_type

@job_type("test.brood")
def brood(job):
    subprocess.Popen(["sh", "-c", "sleep 987 & sleep 986 & wait"])
    subprocess.Popen(["sleep", "984"], env={}, start_new_session=True)
    subprocess.run(["setsid", "-f", "sleep", "983"])        # an orphan from the start
    subprocess.run(["sh", "-c", "sleep 985; true"])
'''


def run_cli(stack: Stack, *args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "jobs.cli", *args], cwd=ROOT, env=stack.environment, capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_the_start_says_where_to_go(stack):
    stack.process = stack.command("start")
    wait_for(lambda: "Accepted is running" in stack.output(), what="the welcome")
    text = stack.output()
    assert f"{stack.url}/ui\n" in text and f'"Authorization: Bearer $(cat {stack.data}/admin.key)"' in text
    link = re.search(r"\S+/ui/sign-in/\S+", text)[0]
    assert link.startswith(stack.url)


@pytest.mark.needs("curl")
def test_what_it_prints_can_be_pasted(server):
    pasted = wait_for(lambda: re.search(r"curl .*\n.*}'", server.output()), what="the welcome")[0]
    answer = subprocess.run(["sh", "-c", pasted + " -s -i"], capture_output=True, text=True)
    assert "202 " in answer.stdout.splitlines()[0], answer


def test_the_data_folder_is_private(server):
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((server.data / "admin.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((server.data / "redis.sock").stat().st_mode) == 0o700


def test_a_second_instance_is_refused(server):
    second = run_cli(server, "start")
    assert second.returncode == 3
    assert f"pid {server.process.pid}" in second.stderr and str(server.data) in second.stderr and server.url in second.stderr
    assert requests.get(f"{server.url}/livez", timeout=60).ok


def test_a_port_in_use_is_named(stack):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stack.settings["port"] = str(taken.getsockname()[1])
        refused = run_cli(stack, "start")
    assert refused.returncode == 3
    assert f"Port {stack.settings['port']} is in use" in refused.stderr and "ACCEPTED_PORT" in refused.stderr


def test_wrong_settings_are_refused(stack):
    stack.settings |= {"lease": "soon", "wrokers": "2"}
    refused = run_cli(stack, "start")
    assert refused.returncode == 2
    assert "ACCEPTED_LEASE" in refused.stderr and "did you mean ACCEPTED_WORKERS" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("signum, code", [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_all(stack, signum, code):
    stack.start()
    family = descendants(stack.process.pid)
    assert len(family) >= 6
    assert stack.stop(signum) == code
    assert [line for pid, line in family.items() if alive(pid)] == []


def test_a_signal_during_the_start_ends_it_too(stack):
    stack.process = stack.command("start")
    wait_for(lambda: stack.pids("web"), what="the web's process")
    assert stack.stop() == 0


def test_ctrl_c_during_the_preparation_says_nothing(stack):
    """A terminal sends it to the whole group."""
    process = subprocess.Popen([sys.executable, "-m", "jobs.cli", "start"], cwd=ROOT, env=stack.environment,
                               start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for((stack.data / "server.lock").exists, what="the lock")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in output and "Aborted" not in output


def test_a_sign_in_link_without_a_server_says_so(stack):
    assert "No server runs" in run_cli(stack, "sign-in").stderr


def test_a_running_job_does_not_hold_up_the_end(stack):
    stack.start()
    alice = stack.session("alice")
    job = alice.submit("demo.drill", seconds=600, steps=10)["id"]
    alice.reached(job, {"running"})
    assert stack.stop() == 0
    stack.start()
    assert stack.session("alice").reached(job, {"running"})["attempt"] == 2


def test_a_second_signal_kills(stack):
    stack.settings["drain"] = "60"
    stack.start()
    alice = stack.session("alice")
    alice.reached(alice.submit("demo.drill", seconds=600)["id"], {"running"})
    family = descendants(stack.process.pid)
    stack.process.send_signal(signal.SIGINT)
    wait_for(lambda: "once more stops at once" in stack.output(), what="the word about it")
    assert stack.stop(signal.SIGINT, timeout=10) == 130
    assert [line for pid, line in family.items() if alive(pid)] == []


def grown(stack):
    """The family of a server that runs a test.brood."""
    wait_for(lambda: sum("sleep 98" in line for line in descendants(stack.process.pid).values()) >= 7, what="the brood")
    return descendants(stack.process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds who has left the session")
def test_a_killed_worker_leaves_nothing_running(stack, tmp_path):
    (tmp_path / "types").mkdir()
    (tmp_path / "types/brood.py").write_text(BROOD)
    stack.settings |= {"job_modules": str(tmp_path / "types"), "workers": "1"}
    stack.start()
    job = stack.session("alice").submit("test.brood", {"maxAttempts": 1})["id"]
    brood = {pid for pid, line in grown(stack).items() if "sleep 98" in line}
    [worker] = [pid for pid in stack.pids("worker") if brood & descendants(pid).keys()]
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not any(alive(pid) for pid in brood), what="the brood's end")
    assert stack.session("alice").finished(job)["error"]["type"].endswith("/problems/worker-lost")


def test_killing_the_launcher_leaves_no_orphan(stack, tmp_path):
    (tmp_path / "types").mkdir()
    (tmp_path / "types/brood.py").write_text(BROOD)
    stack.settings["job_modules"] = str(tmp_path / "types")
    stack.start()
    alice = stack.session("alice")
    alice.submit("test.brood")
    family = grown(stack)
    stack.process.kill()
    stack.process.wait()
    stack.process = None
    wait_for(lambda: not any(alive(pid) for pid in family), what="the family's end")
    stack.start()       # and nothing is in the way of the next start


@pytest.mark.parametrize("role", ROLES)
def test_a_part_that_is_killed_comes_back(stack, role):
    stack.start()
    alice = stack.session("alice")
    first = stack.pids(role)
    below = {pid for parent in first for pid in descendants(parent)}
    os.kill(first[0], signal.SIGKILL)
    wait_for(lambda: (now := stack.pids(role)) and now != first, what=f"a new {role}")
    wait_for(lambda: not any(alive(pid) for pid in below), what="the end of its children")
    wait_for(lambda: requests.get(f"{stack.url}/readyz", timeout=60).json().get("degraded") in (None, []), what="readiness")
    assert alice.finished(alice.submit("demo.drill", seconds=0)["id"])["status"] == "succeeded"


def test_a_part_that_cannot_live_ends_all_with_its_reason(stack, monkeypatch):
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--worker-class no.such.Worker")
    stack.process = stack.command("start")
    assert stack.process.wait(60) == 1
    assert "web cannot live" in stack.output() and "no.such.Worker" in stack.output().split("cannot live")[1]


def test_a_broken_job_type_is_named_before_anything_starts(stack, tmp_path):
    (tmp_path / "types").mkdir()
    (tmp_path / "types/broken.py").write_text("raise RuntimeError('no such flux capacitor')\n")
    stack.settings["job_modules"] = str(tmp_path / "types")
    refused = run_cli(stack, "start")
    assert refused.returncode == 3 and "no such flux capacitor" in refused.stderr


def test_a_store_that_cannot_be_reached_that_way_is_named_before_anything_starts(stack):
    stack.settings["artifacts_url"] = "s4://bucket"
    refused = run_cli(stack, "start")
    assert refused.returncode == 3 and "ACCEPTED_ARTIFACTS_URL='s4://bucket'" in refused.stderr


def test_an_everyday_log_is_quiet(stack):
    stack.process = stack.command("start")
    wait_for(lambda: "Accepted is running" in stack.output(), what="the welcome")
    assert stack.stop() == 0
    before, _, after = stack.output().partition("Accepted is running")
    assert before.strip() == "" and "INFO" not in after


def test_a_long_path_gets_a_short_socket(tmp_path):
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    with Stack(tmp_path, data_dir=str(deep)) as stack:
        socket_of_it = re.search(r"unixsocket[: ](\S+)", descendants(stack.process.pid)[stack.pids("redis")[0]])[1]
        assert len(socket_of_it) < 100 and stat.S_IMODE(os.stat(os.path.dirname(socket_of_it)).st_mode) == 0o700


def test_on_postgresql_with_a_key_of_the_operators_choice(stack, postgres_url):
    stack.settings |= {"database_url": postgres_url, "admin_key": "acc_of-the-operators-own-choice"}
    stack.start()
    assert stack.admin.finished(stack.admin.submit("demo.drill", seconds=0)["id"])["status"] == "succeeded"
    assert "Bearer $ACCEPTED_ADMIN_KEY" in stack.output()
    assert not (stack.data / "admin.key").exists() and not (stack.data / "accepted.db").exists()


def test_a_database_that_cannot_be_reached_is_named(stack):
    stack.settings["database_url"] = "postgresql+psycopg://nobody@127.0.0.1:1/nothing"
    refused = run_cli(stack, "start")
    assert refused.returncode == 3 and "The database cannot be used" in refused.stderr and "Traceback" not in refused.stderr


def test_a_damaged_database_is_named(stack):
    stack.data.mkdir(parents=True)
    (stack.data / "accepted.db").write_bytes(b"no database at all" * 1000)
    refused = run_cli(stack, "start")
    assert refused.returncode == 3 and "The database cannot be used" in refused.stderr and "Traceback" not in refused.stderr


def test_keys_on_the_command_line(server):
    made = run_cli(server, "key", "create", "--owner", "bob", "--name", "laptop", "--expires", "90d").stdout.strip()
    bob = {"Authorization": f"Bearer {made}"}
    assert requests.get(f"{server.url}/v1/jobs", headers=bob, timeout=60).status_code == 200
    row = next(line for line in run_cli(server, "key", "list").stdout.splitlines() if "laptop" in line)
    assert made not in row and "until" in row
    assert run_cli(server, "key", "revoke", row.split()[0]).returncode == 0
    assert requests.get(f"{server.url}/v1/jobs", headers=bob, timeout=60).status_code == 401
    assert run_cli(server, "key", "revoke", row.split()[0]).returncode == 1
    assert run_cli(server, "key", "create", "--owner", "x", "--expires", "soon").returncode == 2
    nobody = run_cli(server, "key", "create", "--owner", "")
    assert nobody.returncode == 2
    assert "an owner is 1 to 100 letters" in nobody.stderr and "./run key create" in nobody.stderr


def test_a_new_sign_in_link_signs_in_once(server):
    link = run_cli(server, "sign-in").stdout.strip()
    assert link.startswith(server.url)

    def enter() -> requests.Session:
        person = requests.Session()
        token = re.search(r'name="csrf" value="([^"]+)"', person.get(link, timeout=60).text)[1]
        person.post(link, data={"csrf": token}, timeout=60)
        return person

    assert enter().get(f"{server.url}/v1/jobs", timeout=60).status_code == 200
    assert enter().get(f"{server.url}/v1/jobs", timeout=60).status_code == 401
