from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from archgrad.errors import UserError
from archgrad.system.run_kind import RUN_FILE, RunKind, read_kind, write_kind


@pytest.mark.parametrize("kind", get_args(RunKind))
def test_a_folder_says_what_it_is(kind: RunKind, tmp_path: Path) -> None:
    write_kind(tmp_path, kind)
    assert read_kind(tmp_path) == kind


@pytest.mark.parametrize("text", ["", "[]", '{"kind": 3}', '{"kind": "serch"}', "[" * 9000])
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_text(text)
    with pytest.raises(UserError, match=RUN_FILE):
        read_kind(tmp_path)


def test_a_folder_without_the_file_is_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=RUN_FILE):
        read_kind(tmp_path)
