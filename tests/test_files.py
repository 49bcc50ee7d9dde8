from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from archgrad.files import atomic_write, write_bytes, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_utf8_and_bytes_are_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "α\r\n")
    write_bytes(tmp_path / "b.bin", b"\x00\xff\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xce\xb1\r\n"
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff\n"
    assert names(tmp_path) == ["a.txt", "b.bin"]


def test_folders_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "one" / "two" / "a.txt", "x")
    assert (tmp_path / "one" / "two" / "a.txt").read_text() == "x"


def test_relative_paths_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(Path("a.txt"), "x")
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_content_and_no_temporary_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_old_content_is_there_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_block_that_closes_the_file_too_early_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(ValueError, match="closed file"), atomic_write(path) as file:
        file.close()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_text_that_is_no_unicode_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_in_the_way_is_an_error_that_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="a"):
        write_text(tmp_path / "a", "x")
    assert names(tmp_path) == ["a"]


def test_the_longest_file_name_works(tmp_path: Path) -> None:
    write_text(tmp_path / ("n" * 255), "x")
    assert names(tmp_path) == ["n" * 255]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "private", "x")
        os.umask(0o022)
        write_text(tmp_path / "public", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644


@pytest.mark.skipif(os.name == "nt", reason="folders are not synchronised on Windows")
def test_a_file_system_that_cannot_synchronise_folders_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(tmp_path / "a.txt", "x")
    assert names(tmp_path) == ["a.txt"]


def test_a_failing_disk_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fsync(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_killed_writer_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from archgrad.files import atomic_write\n"
        "with atomic_write(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half')\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"
