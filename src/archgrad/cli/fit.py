"""From images to a model with one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.cli.console import say
from archgrad.cli.progress import progress_for
from archgrad.cli.search import new_folder, with_threads
from archgrad.config import SearchConfig
from archgrad.distributed.processes import from_first, joined, processes
from archgrad.errors import UserError
from archgrad.files import exists
from archgrad.loop.threads import usable_cores
from archgrad.workflows.fit import fit

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run_fit", "show_fit"]

_EXPORTS = (".onnx", ".pt2", ".py")


def run_fit(request: Mapping[str, Any], out: Path | None, target: Path | None, resume: bool, console: Console) -> Any:
    """Carry out a fit with progress; write the model to ``target`` too, a folder or a file to export to."""
    if target is not None and target.suffix not in (*_EXPORTS, ""):
        raise UserError(f"-o is {str(target)!r}; give a folder, or a file that ends with {', '.join(_EXPORTS)}.")
    options = dict(request)
    threads = options.pop("threads", None) or usable_cores()
    with_threads(SearchConfig(threads=threads))
    with joined(str(options.get("device", "cpu"))):
        home = out or Path(from_first(lambda: str(new_folder("fit", options.get("seed", 0)))))
        say(f"run directory {str(home)[:200]}, {threads} thread{'' if threads == 1 else 's'} (--threads)", console)
        shown = progress_for(console, shows_cell=False)
        try:
            result = fit(
                **options, out=home, resume=resume, interruptible=True, callbacks=[shown], request=dict(request),
                tell=lambda text: say(text, console),
            )  # fmt: skip
        finally:
            shown.close()
            if out is None and processes().rank == 0 and exists(home) and not any(home.iterdir()):
                home.rmdir()
        files = [] if processes().rank else _export(result.model, target)
    return {**result.to_dict(), "run": str(home), "files": files}


def _export(model: Any, target: Path | None) -> list[str]:
    if target is None:
        return []
    if target.suffix not in _EXPORTS:
        return [str(model.save(target))]
    from archgrad.models import export_model

    return [str(file) for file in export_model(model, target).files]


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
