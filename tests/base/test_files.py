"""Atomic writes, and errors of the system in one line."""

import errno
import os

import pytest

from base.errors import StudyError, exit_status
from base.files import atomic_writer, write_atomic


def test_an_atomic_write_follows_links_and_replaces_no_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    write_atomic(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"
    with pytest.raises(StudyError, match=r"/pipe: is not a regular file; name another file$"):
        write_atomic(tmp_path / "pipe", "text")
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "full"), "{}: full; free space and rerun the same command"),
        (OSError("of a library"), "input or output: of a library"),
    ],
)
def test_an_error_of_the_system_names_the_file(tmp_path, capsys, error, line):
    def write():
        with atomic_writer(tmp_path / "file"):
            raise error

    assert exit_status(write) == 2
    assert capsys.readouterr().err == f"error: {line.format(tmp_path / 'file')}\n"
    assert list(tmp_path.iterdir()) == []
