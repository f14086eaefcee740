"""One suite for every store: what is put appears whole, stays as it was, and goes without a trace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.artifacts.store import BadKey, NotPlain, check_key, digest, new_key
from jobs.errors import StorageFull, StorageUnavailable

ROOT = Path(__file__).resolve().parent.parent.parent
KEY = "jobs/501/ab-data.csv"


def test_what_is_put_is_what_is_read(store, made):
    store.put_file(made(b"0123456789"), KEY)
    assert store.size(KEY) == 10
    with store.open(KEY) as file:
        assert file.read() == b"0123456789"
    with store.open(KEY, 7) as file:
        assert file.read(2) == b"78" and file.read() == b"9" and file.read() == b""


def test_a_file_is_moved(store, made):
    local = made(b"x")
    store.put_file(local, KEY)
    assert not local.exists()


def test_an_empty_file_is_a_file(store, made):
    store.put_file(made(b""), KEY)
    assert store.size(KEY) == 0 and store.open(KEY).read() == b""


def test_a_file_larger_than_one_part(store, made):
    content = os.urandom(6 << 20)
    store.put_file(made(content), KEY)
    with store.open(KEY, 5 << 20) as file:
        assert file.read() == content[5 << 20:]


def test_a_folder_is_one_artifact(store, made):
    local = made({"index.m3u8": b"#EXTM3U", "playlists/720p/a.ts": b"aa", "playlists/720p/表.ts": b"bbb"})
    store.put_folder(local, KEY)
    assert store.files(KEY) == [("index.m3u8", 7), ("playlists/720p/a.ts", 2), ("playlists/720p/表.ts", 3)]
    assert store.open(f"{KEY}/playlists/720p/表.ts").read() == b"bbb"
    assert not local.exists()
    assert [leaf.key for leaf in store.leaves()] == [KEY]


def test_what_is_not_there_is_not_found(store, made):
    store.put_folder(made({"a/b": b"x"}), KEY)
    for key in ("jobs/1/nothing", f"{KEY}/a", f"{KEY}/a/c", f"{KEY}/a/b/c", KEY):
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            store.size(key)
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            store.open(key).read()
    with pytest.raises(FileNotFoundError):
        store.files("jobs/1/nothing")
    with pytest.raises(FileNotFoundError):
        store.files(f"{KEY}/a/b")


def test_delete_takes_files_and_folders_and_only_them(store, made):
    store.put_file(made(b"1"), "jobs/1/aa")
    store.put_file(made(b"2"), "jobs/1/aab")  # its name begins like the other's
    store.put_folder(made({"x/y": b"3"}), "jobs/2/bb")
    store.delete("jobs/1/aa")
    store.delete("jobs/2/bb")
    store.delete("jobs/2/bb")
    assert [leaf.key for leaf in store.leaves()] == ["jobs/1/aab"]
    store.delete("jobs/1/aab")
    assert list(store.leaves()) == []


def test_a_key_is_never_taken_twice(store, made):
    store.put_file(made(b"first"), KEY)
    with pytest.raises(BadKey):
        store.put_file(made(b"second"), KEY)
    assert store.open(KEY).read() == b"first"


def test_fetch_copies(store, made, tmp_path):
    store.put_file(made(b"abc"), KEY)
    store.fetch(KEY, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"abc" and store.size(KEY) == 3
    with pytest.raises(FileNotFoundError):
        store.fetch("jobs/1/nothing", tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("key", [
    "", "a", "a/b", "/a/b/c", "../a/b", "a/../../b/c", "a/b/..", "a//b", "a/b/", "./a/b", "a/./b", "a/b/c\0d", "a/b/c\nd", "a\\b/c/d",
    "a/b/" + "x" * 256, "a/b/" + "x/" * 600 + "x", ".tmp/a/b", "a/b/\udc80"])
def test_keys_that_lead_elsewhere_are_refused(store, made, key):
    for attempt in (store.size, store.open, store.files, store.delete, lambda key: store.put_file(made(b""), key),
                    lambda key: store.put_folder(made({"a": b""}), key)):
        with pytest.raises(BadKey):
            attempt(key)


@pytest.mark.parametrize("name", ["表 格.csv", 'a"b\'c.csv', "../../etc/passwd", "", ".hidden", "a\r\nb", "x" * 300, "\udc80"])
def test_any_name_makes_a_good_key_and_no_two_are_alike(name):
    keys = {new_key("jobs", 5, name) for _ in range(20)}
    assert len(keys) == 20
    for key in keys:
        assert check_key(key).count("/") == 2 and key.isascii()


def test_symlinks_are_not_stored(store, made, tmp_path):
    (tmp_path / "secret").write_text("secret")
    link = store.scratch / "link"
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(NotPlain):
        store.put_file(link, KEY)
    folder = made({"a": b"a"})
    (folder / "inner").symlink_to(tmp_path)
    with pytest.raises(NotPlain):
        store.put_folder(folder, KEY)
    folder = made({"a": b"a"})
    os.mkfifo(folder / "pipe")
    with pytest.raises(NotPlain):
        store.put_folder(folder, KEY)
    assert list(store.leaves()) == []


def test_two_stores_see_the_same(settings, store, made):
    from jobs.artifacts.store import open_store

    store.put_file(made(b"x"), KEY)
    other = open_store(settings)
    assert other.open(KEY).read() == b"x"
    other.delete(KEY)
    with pytest.raises(FileNotFoundError):
        store.size(KEY)


def test_after_a_fork_the_child_has_a_client_of_its_own(settings, store, made):
    store.put_file(made(b"x"), KEY)
    child = os.fork()
    if child == 0:
        os._exit(0 if store.open(KEY).read() == b"x" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.size(KEY) == 1


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_a_service_that_is_away_is_storage_unavailable(store, made, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    local = made(b"x")
    with pytest.raises(StorageUnavailable):
        store.put_file(local, KEY)
    assert local.exists()


def test_what_was_made_long_ago_and_is_stored_now_is_young(store, made):
    for key, content in (("jobs/1/a", b"x"), ("jobs/1/b", {"x": b"y"})):
        local = made(content)
        os.utime(local, (0, 0))
        (store.put_folder if isinstance(content, dict) else store.put_file)(local, key)
    assert all(-60 < leaf.age < 60 for leaf in store.leaves())


# What only a local folder can meet


@pytest.fixture
def local_store(tmp_path):
    from jobs.artifacts.store import LocalStore

    return LocalStore(tmp_path / "artifacts")


def test_a_symlink_in_the_store_is_not_followed(local_store, tmp_path):
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "artifacts" / "jobs" / "1"
    inside.mkdir(parents=True)
    (inside / "file").symlink_to(tmp_path / "secret")
    (inside / "folder").symlink_to(tmp_path)
    for key in ("jobs/1/file", "jobs/1/folder/secret"):
        with pytest.raises(BadKey):
            local_store.size(key)
        with pytest.raises(BadKey):
            local_store.open(key)
    with pytest.raises(BadKey):
        local_store.files("jobs/1/folder")
    local_store.delete("jobs/1/folder")
    assert (tmp_path / "secret").exists() and not (inside / "folder").is_symlink()


def test_the_data_folder_may_itself_be_a_symlink(tmp_path):
    from jobs.artifacts.store import LocalStore

    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = LocalStore(tmp_path / "link" / "artifacts")
    (store.scratch / "x").write_bytes(b"x")
    store.put_file(store.scratch / "x", KEY)
    assert store.size(KEY) == 1


def test_a_file_from_another_disk_is_copied_whole(local_store):
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == local_store.scratch.stat().st_dev:
        pytest.skip("no second file system")
    folder = other / f"accepted-{os.getpid()}"
    folder.mkdir()
    (folder / "a").write_bytes(b"a")
    size, sha256 = digest(folder / "a")
    local_store.put_folder(folder, KEY)
    assert not folder.exists() and local_store.files(KEY) == [("a", 1)] and size == 1 and len(sha256) == 64
    assert list(local_store.scratch.iterdir()) == []


FULL = """
import os, sys
from pathlib import Path
from jobs.artifacts.store import LocalStore
from jobs.errors import StorageFull
store = LocalStore(Path(sys.argv[1]) / "artifacts")
source = Path(sys.argv[2])
try:
    store.put_file(source, "jobs/1/big")
except StorageFull:
    print("full", source.exists(), list(store.leaves()), list(store.scratch.iterdir()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_leaves_nothing_half(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "big").write_bytes(os.urandom(8 << 20))
    script = f"mount -t tmpfs -o size=2m none {tmp_path}/small && exec {sys.executable} -c '{FULL}' {tmp_path}/small {tmp_path}/big"
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.strip() == "full True [] []", ran.stderr
    assert StorageFull.__mro__[1] is StorageUnavailable


KILLED = """
import os, sys
from pathlib import Path
from jobs.artifacts.store import LocalStore
store = LocalStore(Path(sys.argv[1]))
number = 0
while True:
    folder = store.scratch / f"f{number}"
    folder.mkdir()
    for name in "abcd":
        (folder / name).write_bytes(b"x" * 1000)
    store.put_folder(folder, f"jobs/1/{number}")
    number += 1
    print(number, flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_artifacts_only(local_store, tmp_path):
    for moment in range(1, 5):
        process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "artifacts"], cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(moment):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        for leaf in local_store.leaves():
            assert local_store.files(leaf.key) == [(name, 1000) for name in "abcd"]
            local_store.delete(leaf.key)
        for leftover in local_store.scratch.iterdir():
            for inner in leftover.iterdir():
                inner.unlink()
            leftover.rmdir()
