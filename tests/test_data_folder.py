"""The data folder: one server, one machine."""

import multiprocessing
import os
import stat

import pytest

from jobs.data_folder import DataFolder, Unusable, file_system, refuse_network, tenant

MOUNTS = [("/", "ext4"), ("/mnt/share", "nfs4"), ("/mnt/share/local", "xfs"), ("/mnt/shared", "btrfs"), ("/over", "ext4"), ("/over", "cifs")]


@pytest.mark.parametrize("path, kind", [
    ("/home/x", "ext4"), ("/mnt/share/var", "nfs4"), ("/mnt/share/local/var", "xfs"), ("/mnt/shared/var", "btrfs"), ("/over/x", "cifs"),
])
def test_the_deepest_and_latest_mount_counts(path, kind, tmp_path):
    assert file_system(tmp_path.__class__(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.rclone", "ceph"])
def test_a_network_file_system_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("jobs.data_folder._mounts", lambda: [("/", kind)])
    with pytest.raises(Unusable, match="network file system.*ACCEPTED_DATABASE_URL"):
        refuse_network(tmp_path)


def test_this_machines_own_folder_is_fine(tmp_path):
    refuse_network(tmp_path)


def test_it_is_private_even_if_it_was_not(tmp_path):
    tmp_path.chmod(0o755)
    DataFolder.take(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_only_one_takes_it_and_who_fails_learns_who_has_it(tmp_path):
    held = DataFolder.take(tmp_path)
    held.sign("http://127.0.0.1:1")
    assert tenant(tmp_path) == {"pid": os.getpid(), "url": "http://127.0.0.1:1"}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        refusal = pool.apply(_try, (tmp_path,))
    assert f"pid {os.getpid()}" in refusal and "http://127.0.0.1:1" in refusal and str(tmp_path) in refusal


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="file/var"):
        DataFolder.take(tmp_path / "file/var")


def _try(path):
    try:
        DataFolder.take(path)
    except Unusable as error:
        return str(error)
