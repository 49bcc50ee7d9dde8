"""The page of whatever a folder holds, and how it is written into a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from archgrad.errors import UserError
from archgrad.pages.studies import page_of_study
from archgrad.report.page import Page, to_html
from archgrad.report.page.fits import page_of_fit
from archgrad.report.page.records import RunRecords, find_runs, is_run, kind_of, read_run
from archgrad.report.page.runs import listing, page_of_runs
from archgrad.report.page.trainings import page_of_training
from archgrad.system.files import exists, write_text

__all__ = ["page_of", "page_of_list", "write_report"]

_PAGES = {"study": page_of_study, "fit": page_of_fit, "training": page_of_training, "selection": page_of_training}
"""The page of each kind of run but a search."""


def page_of(run: Path) -> Page:
    """Return the page of one run directory of any kind, or of a study."""
    make = _PAGES.get(kind_of(run))
    return page_of_runs([run]) if make is None else make(run)


def page_of_folder(folder: Path) -> Page:
    """Return the page of all runs in a folder: their list, and the curves of the searches among them."""
    runs = [read_run(run) for run in find_runs(folder)]
    if not runs:
        raise UserError(
            f"there are no run directories in {str(folder)[:150]}; give run directories, or the folder of a study."
        )
    searches = [run.folder for run in runs if run.kind == "search" and run.records]
    listed = page_of_list(folder, runs)
    curves = page_of_runs(searches) if searches else listed
    return replace(curves, title=listed.title, verdict=listed.verdict, listing=listed.listing)


def page_of_list(folder: Path, runs: Sequence[RunRecords], links: Mapping[Path, str] = MappingProxyType({})) -> Page:
    """Return a page with the list of the runs in a folder; ``links`` are the addresses of their pages."""
    done = sum(run.finished for run in runs)
    verdict = f"{done} of {len(runs)} runs are finished." if runs else "There are no runs yet."
    return Page(folder.resolve().name, verdict, listing=listing(folder, runs, links))


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the page of run directories, of one study, or of a folder of runs, and return its path."""
    if out.suffix not in (".html", ".htm"):
        raise UserError(f"{str(out)[:150]} is no name of a page; end it in .html.")
    for folder in folders:
        if not exists(folder):
            raise UserError(f"there is no folder {str(folder)[:150]}; give run directories, or the folder of a study.")
    own = [folder for folder in folders if kind_of(folder) in _PAGES]
    if own and len(folders) > 1:
        raise UserError(f"{str(own[0])[:150]} is a {kind_of(own[0])}, which has a page of its own; give it alone.")
    if len(folders) > 1:
        page = page_of_runs(folders)
    else:
        page = page_of(folders[0]) if is_run(folders[0]) else page_of_folder(folders[0])
    try:
        write_text(out, to_html(page))
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror or error}); choose another file.") from error
    return out
