"""Locks on files: one holder at a time, and file systems without locks."""

import errno

import pytest

from attnflow._common.checks import InputError
from attnflow._common.file_locks import is_locked, locked_file


def test_a_lock_has_one_holder_and_ends_with_it(tmp_path):
    file = tmp_path / "lock"
    with locked_file(file, "a.zarr"):
        assert is_locked(file)
        with pytest.raises(InputError, match=r"a\.zarr is being written by another process \(process \d+ on"):
            locked_file(file, "a.zarr").__enter__()
    assert not is_locked(file)


@pytest.mark.parametrize(("number", "is_held"), [(errno.EWOULDBLOCK, True), (errno.ENOSYS, False)])
def test_a_file_system_without_locks_is_not_taken_for_a_locked_file(tmp_path, monkeypatch, number, is_held):
    def flock(file, operation):
        raise OSError(number, "refused")

    monkeypatch.setattr("fcntl.flock", flock)
    assert is_locked(tmp_path / "lock") is is_held


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a\.zarr cannot be written: No such file"):
        locked_file(tmp_path / "none" / "lock", "a.zarr").__enter__()
