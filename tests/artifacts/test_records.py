"""Rows of artifacts, their names and their links."""

import json
import multiprocessing
import os
import stat

import pytest

from jobs import clock
from jobs import settings as settings_module
from jobs.artifacts import links, names, records
from jobs.core import lifecycle
from jobs.core.outcome import Failed, Succeeded
from jobs.errors import Problem


@pytest.fixture(params=["local"])
def kind(request):
    return request.param


def test_an_artifact_is_recorded_with_what_is_known_of_it(house):
    job = house.running()
    row = house.leave(job, b"a,b\n", "Umsätze.csv")
    assert (row.kind, row.name, row.media_type, row.size, row.owner, row.job_id) == (
        "file", "Umsätze.csv", "text/csv", 4, "alice", job.id)
    assert len(row.sha256) == 64 and house.store.open(row.key).read() == b"a,b\n"
    assert records.of_job(house.db.read(), job.id) == [row]
    shown = records.render(row)
    assert shown["url"] == f"/v1/artifacts/{row.id}/content" and json.dumps(shown)


def test_the_link_is_minted_once_and_stays(house, clock_file):
    row = house.leave(house.running())
    clock_file(100)
    assert house.get(row).link == row.link
    assert row.link.startswith(f"http://127.0.0.1:8202/v1/artifacts/{row.id}/signed/")
    assert clock.seconds_until(row.link_expires_at) == pytest.approx(house.settings.link_lifetime - 100, abs=5)


def test_a_folders_link_leads_to_its_entry(house):
    job = house.running()
    assert house.leave(job, {"a.ts": b"", "index.m3u8": b""}, "hls").link.endswith("/index.m3u8")
    assert house.leave(job, {"a.ts": b""}, "other").link.endswith("/")
    assert house.leave(job, {"a": b"12", "b/c": b"3"}, "third").size == 3


def test_an_attempt_that_is_lost_leaves_nothing(house):
    job = house.running()
    house.db.write(lambda tx: lifecycle.lose(tx, job.id, job.attempt, Problem("worker-lost")))
    assert house.leave(job) is None
    assert list(house.store.leaves()) == [] and records.of_job(house.db.read(), job.id) == []


def test_what_a_failed_attempt_left_is_gone_at_once_and_a_partial_success_keeps_it(house):
    failed, partial = house.running(), house.running()
    gone, kept = house.leave(failed), house.leave(partial)
    house.settle(failed, Failed(Problem("job-raised")))
    house.settle(partial, Succeeded("1", [{"part": "b", "detail": "no"}]))
    assert house.get(gone) is None and house.get(kept) is not None


def test_a_job_reads_its_owners_artifacts_and_its_inputs(house):
    mine, foreign, named = house.upload(), house.upload(owner="bob"), house.upload(owner="bob")
    job = house.running(inputs=(named.id,))
    readable = [bool(records.readable_by_job(house.db.read(), row.id, job)) for row in (mine, foreign, named)]
    assert readable == [True, False, True]


# Names


@pytest.mark.parametrize("given, kept", [
    ("report.csv", "report.csv"), ("季度 报告.csv", "季度 报告.csv"), ('say "hi".txt', 'say "hi".txt'), ("a\r\nb\0.csv", "ab.csv"),
    ("../../etc/passwd", "passwd"), ("C:\\temp\\x.csv", "x.csv"), ("", "file"), (None, "file"), ("..", "file"), ("a/..", "file"),
    ("   ", "file"), ("\u202egpj.exe", "gpj.exe"), ("\udcff.csv", ".csv"), ("e\u0301.txt", "é.txt"), (".hidden", ".hidden")])
def test_names_lose_what_could_harm(given, kept):
    assert names.clean(given) == kept


def test_a_long_name_keeps_its_ending():
    kept = names.clean("表" * 300 + ".csv")
    assert kept.endswith("表.csv") and len(kept.encode()) <= 200
    assert len(names.clean("x" * 1000).encode()) == 200 and len(names.clean("x." + "y" * 1000).encode()) == 200


# Links


SECRET = b"0123456789abcdef"
LATER = "2031-01-01T00:00:00.123Z"


def test_a_token_opens_its_own_artifact_until_its_time():
    token = links.mint(SECRET, 7, LATER)
    assert links.verify(SECRET, 7, token) == LATER
    assert links.verify(SECRET, 8, token) is None
    assert links.verify(b"other", 7, token) is None


@pytest.mark.parametrize("tamper", [
    lambda token: "", lambda token: ".", lambda token: token[:-1], lambda token: token + "A", lambda token: "9" + token,
    lambda token: token.replace(".", ""), lambda token: "x" + token[1:], lambda token: token.partition(".")[0] + ".",
    lambda token: "1" * 400 + ".x", lambda token: "١" + token, lambda token: token[:-2] + "é"])
def test_no_other_token_opens_it(tamper):
    assert links.verify(SECRET, 7, tamper(links.mint(SECRET, 7, LATER))) is None


def test_the_path_behind_the_token_is_found_again(tmp_path):
    settings = settings_module.load({}, data_dir=tmp_path)
    for path in ("a b.csv", "表/50%.csv", "", "playlists/720p/index.m3u8"):
        assert links.path_of(links.url(settings, 7, path, LATER)) == path


def _secret(folder, queue):
    queue.put(links.secret(settings_module.load({}, data_dir=folder)))


def test_processes_that_start_together_agree_on_the_secret(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_secret, args=(tmp_path / "data", queue)) for _ in range(8)]
    for process in processes:
        process.start()
    found = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    path = tmp_path / "data" / "secret.key"
    assert found == {path.read_bytes().strip()} and len(path.read_bytes()) > 60
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(path.parent) == ["secret.key"]


def test_an_empty_secret_is_made_anew(tmp_path):
    (tmp_path / "secret.key").touch()
    assert len(links.secret(settings_module.load({}, data_dir=tmp_path))) == 64


def test_the_setting_wins_so_that_hosts_can_share_it(tmp_path):
    assert links.secret(settings_module.load({}, data_dir=tmp_path, secret_key="shared")) == b"shared"
    assert not (tmp_path / "secret.key").exists()
