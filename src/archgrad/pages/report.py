"""Write the page of runs or of a study into a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from archgrad.errors import UserError
from archgrad.pages.runs import page_of_runs
from archgrad.pages.studies import page_of_study
from archgrad.report.page import to_html
from archgrad.system.files import exists, write_text

__all__ = ["write_report"]


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the page of run directories, or of one study, and return its path."""
    if out.suffix not in (".html", ".htm"):
        raise UserError(f"{str(out)[:150]} is no name of a page; end it in .html.")
    for folder in folders:
        if not exists(folder):
            raise UserError(f"there is no folder {str(folder)[:150]}; give run directories, or the folder of a study.")
    studies = [folder for folder in folders if exists(folder / "study.toml")]
    if studies and len(folders) > 1:
        raise UserError(f"{str(studies[0])[:150]} is a study, which has a page of its own; give it alone.")
    page = page_of_study(folders[0]) if studies else page_of_runs(folders)
    try:
        write_text(out, to_html(page))
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror or error}); choose another file.") from error
    return out
