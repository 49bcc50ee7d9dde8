"""From images to a model with one command."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from archgrad.callbacks.progress import SearchProgress
from archgrad.cli.console import say
from archgrad.cli.search import run_folder
from archgrad.distributed.processes import joined
from archgrad.tasks import MetricInfo
from archgrad.tasks.classification import BALANCED
from archgrad.workflows.fit import run_fit
from archgrad.workflows.fit_folder import FitFolder

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["fit_with_progress", "show_fit"]


def fit_with_progress(
    request: Mapping[str, Any], begun: FitFolder | None, out: Path | None, console: Console
) -> dict[str, Any]:
    """Carry out a fit with progress, or continue the one that was ``begun``."""
    with joined(str(request.get("device", "cpu"))):
        shown = SearchProgress(console, shows_cell=False)
        with run_folder(out, "fit", request.get("seed", 0)) as home, closing(shown):
            say(f"run directory {str(home)[:200]}", console)
            result = run_fit(
                request, begun or FitFolder(home), interruptible=True, callbacks=[shown],
                tell=lambda text: say(text, console), on_clock=shown.count_down,
            )  # fmt: skip
    return {**result.to_dict(), "run": str(home), "files": list(result.files)}


def show_fit(content: Mapping[str, Any]) -> str:
    """Format the result of a fit."""
    metric = MetricInfo.of_record(content)
    low, high = (metric.number(one, 2) for one in content["interval"])
    model = Path(content["run"]) / "model"
    parts = ", ".join(f"{name} {one:.0f}" for name, one in content["seconds"].items())
    balanced = None if metric.name == BALANCED else content[BALANCED]
    rows = {
        metric.name: f"{metric.show(content['value'], 2)} on {content['test_images']:,} test images "
        f"(95 % interval {low} to {high})",
        **({} if content["warning"] is None else {"warning": content["warning"]}),
        **({} if balanced is None else {"balanced": f"{balanced:.2f} %, if all classes count alike"}),
        "network": f"{content['network']}, {content['parameters'] / 1e6:.3f} M parameters, "
        f"{content['multiply_adds'] / 1e6:.2f} M multiply-adds",
        **({} if content["genotype"].startswith("{") else {"cell": content["genotype"]}),
        "seconds": f"{content['total']:.0f} in all: {parts}",
        "report": str(Path(content["run"]) / "report.html"),
        "model": ", ".join([str(model), *content["files"]]),
        "next": f"archgrad predict {quote(str(model))} IMAGES…",
        "search": content["added"],
    }
    if content["compared"] is not None:
        rows["compared"] = content["compared"]["verdict"]
    return "\n".join(f"{name:<10} {text}" for name, text in rows.items())
