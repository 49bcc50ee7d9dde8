"""``archgrad search --dry-run``: estimate the cost of a search without starting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from archgrad.system.amounts import counted

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.config import SearchConfig

__all__ = ["dry_run", "duration", "show_dry_run"]


def dry_run(config: SearchConfig, console: Console) -> dict[str, Any]:
    """Check a configuration, choose the sizes that it leaves open, and time a few steps; write no file."""
    from archgrad.cli.console import say
    from archgrad.cli.search import load
    from archgrad.loop.estimate import estimate
    from archgrad.loop.global_state import own_threads

    experiment = load(config, console)
    config, data, space, training = experiment.config, experiment.data, experiment.space, experiment.weights
    say("measuring a few steps", console)
    with own_threads(config.threads):
        found = estimate(experiment.parts, data)
    stages = experiment.method.progressive
    sizes = {
        "space": config.space, "method": config.method, "data": config.data, "images": len(data),
        "image_size": data.image_size, "shape": data.shape, "classes": data.num_classes, "channels": space.channels,
        "depth": getattr(space, space.depth_knob) if stages is None else [stage.cells for stage in stages.stages],
        "epochs": training.epochs, "batch_size": config.batch_size or training.batch_size, "threads": config.threads,
    }  # fmt: skip
    return sizes | asdict(found)


def show_dry_run(found: Mapping[str, Any]) -> str:
    """Format the estimate in a few lines."""
    depth, memory, classes = found["depth"], found["peak_megabytes"], found["classes"]
    stages = f" in each of {len(depth)} stages" if isinstance(depth, list) else ""
    return "\n".join(
        [
            f"{found['method']} on {found['space']} would search {found['images']:,} images "
            f"{f'of {classes} classes' if classes else 'without classes'}, "
            f"{found['shape'][1]}×{found['shape'][2]} pixels",
            f"sizes      {found['channels']} channels, depth {', '.join(map(str, depth)) if stages else depth}, "
            f"{counted(found['epochs'], 'epoch')}{stages}, batches of {found['batch_size']}",
            f"supernet   {found['parameters']:,} parameters",
            f"steps      {found['weight_steps']:,} of the weights, {found['arch_steps']:,} of the architecture",
            f"time       {found['step_seconds']:.2g} s per step, about {duration(found['seconds'])} in total",
            f"memory     {'unknown here' if memory is None else f'{memory:,.0f} MB at the peak of the measured steps'}",
            "nothing was started; leave out --dry-run to search",
        ]
    )


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes, hours or days.

    >>> duration(95), duration(1000), duration(10000), duration(400000)
    ('95 seconds', '17 minutes', '2.8 hours', '4.6 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    if seconds < 48 * 3600:
        return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86400:.1f} days"
