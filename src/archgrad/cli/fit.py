"""From images to a model with one command."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.callbacks.progress import progress_for
from archgrad.cli.console import say
from archgrad.cli.options import FIT
from archgrad.cli.search import run_folder, with_threads
from archgrad.config import SearchConfig
from archgrad.data.catalog import absolute_name
from archgrad.distributed.processes import joined, processes
from archgrad.errors import UserError
from archgrad.loop.estimate import usable_cores
from archgrad.models.export import SUFFIXES, export_model
from archgrad.models.onnx_model import check_installed
from archgrad.system.files import as_path, exists, list_folder, shown_path
from archgrad.workflows.fit import fit

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.models import Model

__all__ = ["REQUEST", "run_fit", "show_fit"]

REQUEST = (*FIT, "budget", "max_params", "max_madds", "max_latency", "test", "target")
"""What a fit can be asked for; its folder keeps it for a resume."""


def run_fit(request: Mapping[str, Any], out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Carry out a fit with progress; write the model to the ``target`` too, a folder or a file to export to."""
    request = _complete(request)
    options = dict(request)
    target = Path(options.pop("target")) if "target" in options else None
    _check_target(target)
    threads = options.pop("threads")
    with_threads(SearchConfig(threads=threads))
    with joined(str(options.get("device", "cpu"))):
        shown = progress_for(console, shows_cell=False)
        with run_folder(out, "fit", options.get("seed", 0)) as home, closing(shown):
            say(f"run directory {str(home)[:200]}, {threads} thread{'' if threads == 1 else 's'} (--threads)", console)
            result = fit(
                **options, out=home, resume=resume, interruptible=True, callbacks=[shown], request=dict(request),
                tell=lambda text: say(text, console),
            )  # fmt: skip
        files = [] if processes().rank or target is None else _export(result.model, target, home)
    return {**result.to_dict(), "run": str(home), "files": files}


def _complete(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request that means the same in another folder and on another machine."""
    made = {"threads": usable_cores(), **request}
    for name in ("data", "test"):
        if name in made:
            made[name] = absolute_name(made[name])
    for name in ("data_dir", "target"):
        if name in made:
            made[name] = str(as_path(name, made[name]).absolute())
    return made


def _check_target(target: Path | None) -> None:
    """Reject a place for the model that cannot be written, before anything is trained."""
    if target is None:
        return
    try:
        problem = _problem_of(target)
    except (OSError, ValueError) as error:
        problem = f"no file can have this name ({getattr(error, 'strerror', None) or error}); give another name"
    if problem:
        raise UserError(f"-o is {shown_path(target)}; {problem}.")
    if target.suffix == ".onnx":
        check_installed("onnx", "onnxscript", "onnxruntime")


def _problem_of(target: Path) -> str:
    """Say what is wrong with the place for a model, if anything."""
    if target.suffix not in (*SUFFIXES, "") or (not target.suffix and target.is_file()):
        return f"give a folder, or a file that ends with {', '.join(SUFFIXES)}"
    if target.suffix:
        return "give a file in a folder that exists" if target.is_dir() or not target.parent.is_dir() else ""
    filled = target.is_dir() and any(list_folder(target)) and not exists(target / "model.json")
    return "it is not empty and no model, so give a new folder" if filled else ""


def _export(model: Model, target: Path, home: Path) -> list[str]:
    try:
        return [str(export_model(model, target).file if target.suffix else model.save(target))]
    except UserError as error:
        raise UserError(f"{error} The model itself is in {shown_path(home / 'model')}.") from error


def show_fit(content: Mapping[str, Any]) -> str:
    """Format the result of a fit."""
    low, high = content["interval"]
    rows = {
        "accuracy": f"{content['accuracy']:.2f} % of {content['test_images']:,} test images "
        f"(95 % interval {low:.2f} to {high:.2f})",
        "verdict": content["verdict"],
        "network": f"{content['channels']} channels, {content['depth']} cells per stage, "
        f"{content['parameters'] / 1e6:.3f} M parameters, {content['multiply_adds'] / 1e6:.2f} M multiply-adds",
        "cell": content["genotype"],
        "seconds": ", ".join(f"{name} {one:.0f}" for name, one in content["seconds"].items()),
        "report": str(Path(content["run"]) / "report.html"),
        "model": ", ".join([str(Path(content["run"]) / "model"), *content["files"]]),
        "next": f"archgrad predict {Path(content['run']) / 'model'} IMAGES…",
    }
    return "\n".join(f"{name:<10} {text}" for name, text in rows.items())
