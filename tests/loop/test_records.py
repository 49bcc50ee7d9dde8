"""Records of a run that somebody else has written: a sentence, whatever they hold."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from archgrad.errors import UserError
from archgrad.loop.folder import read_records
from tests.cli.fuzz import BAD_RECORDS, STORED


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED, tmp_path / "run"))


def test_good_records_are_read(run: Path) -> None:
    assert [record["epoch"] for record in read_records(run)] == [1]


@pytest.mark.parametrize("name", [name for name in BAD_RECORDS if name != "empty"])
def test_damaged_records_are_refused(name: str, run: Path) -> None:
    (run / "metrics.jsonl").write_text(BAD_RECORDS[name])
    with pytest.raises(UserError, match=r"metrics.jsonl is missing or damaged; `archgrad resume .*` writes it again"):
        read_records(run)


@pytest.mark.parametrize("command", [["plot"], ["inspect"]])
@pytest.mark.parametrize("name", ["half", "stopped", "deep"])
def test_commands_say_so(command: list[str], name: str, run: Path, archgrad) -> None:
    (run / "metrics.jsonl").write_text(BAD_RECORDS[name])
    assert "damaged" in archgrad.error(*command, run)
