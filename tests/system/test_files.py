from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from archgrad.errors import UserError
from archgrad.system.files import (
    atomic_write,
    check_regular,
    existing_path,
    list_folder,
    open_regular,
    read_regular,
    read_text,
    write_bytes,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_utf8_and_bytes_are_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "α\r\n")
    write_bytes(tmp_path / "b.bin", b"\x00\xff\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xce\xb1\r\n"
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff\n"
    assert names(tmp_path) == ["a.txt", "b.bin"]


def test_hundreds_of_nested_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="folders in one another"):
        write_text(tmp_path.joinpath(*["a"] * 400), "x")
    assert not list(tmp_path.iterdir())


def test_an_exception_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
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
        "from archgrad.system.files import atomic_write\n"
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


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"abc")
    check_regular(tmp_path / "a", most=3)
    assert read_regular(tmp_path / "a", most=3) == b"abc"
    with open_regular(tmp_path / "a") as file:
        assert file.read(2) == b"ab"
    assert existing_path(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "b").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    assert list_folder(tmp_path) == ([tmp_path / "b"], [tmp_path / "a", tmp_path / "gone"])


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"abc")
    tracemalloc.start()
    assert read_regular(tmp_path / "a", most=1 << 34) == b"abc"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_file_that_tells_no_size_is_read_whole() -> None:
    path = Path("/proc/self/limits")
    assert path.stat().st_size == 0
    assert read_regular(path) == path.read_bytes()


def test_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_bytes(tmp_path / "a", b"abc")
    assert existing_path("~/a") == tmp_path / "a"
    assert read_regular("~/a") == b"abc"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "there is no table at .*absent'; check the path"),
        ("file/under", "there is no table at"),
        ("folder", "is a folder; give the path of a regular file"),
        ("pipe", "is a pipe; give"),
        ("/dev/zero", "is a device; give"),
        ("/dev/stdin", "is a|there is no"),
        ("n" * 300, "File name too long"),
        ("a\0b", "null"),
        ("~nouser-of-this-name/x", "home directory"),
        ("loop", "symbolic links"),
        ("undecodable-\udcff", r"no table at .*\\udcff"),
        ("sparse", "the table '.*sparse' has 1,100,000,000 bytes or more; at most 1,000,000 are read"),
    ],
)
def test_what_is_no_file_to_read_is_refused_at_once(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1_100_000_000)
    with pytest.raises(UserError, match=sentence) as error:
        check_regular(name, "table", most=1_000_000)
    assert len(str(error.value)) < 300


def test_a_file_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes(tmp_path / "a", b"abcdef")
    monkeypatch.setattr(
        "archgrad.system.files._check_kind", lambda *found: None
    )  # files of /proc say that they are empty
    with pytest.raises(UserError, match="has 6 bytes or more; at most 5 are read"):
        read_regular(tmp_path / "a", most=5)


def test_files_and_folders_without_permission_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    write_bytes(tmp_path / "a", b"x")
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match=r"the file '.*a' cannot be read \(Permission denied\)"):
        read_regular(tmp_path / "a")
    with pytest.raises(UserError, match=r"the folder .* cannot be read \(Permission denied\)"):
        list_folder(tmp_path)


def test_a_text_that_is_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("é" * 6)
    with pytest.raises(UserError, match="has 12 bytes or more; at most 10 are read"):
        read_text(tmp_path / "a", "name", 10)
    (tmp_path / "b").write_bytes(b"a\r\nb")
    assert read_text(tmp_path / "b") == "a\nb"
    (tmp_path / "b").write_bytes(b"\xff\x00")
    with pytest.raises(UserError, match=r"the name .* is no text in UTF-8"):
        read_text(tmp_path / "b", "name")
