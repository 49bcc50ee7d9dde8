"""How fast a supernet step is, against the plain reference and against its convolutions alone.

All times are process CPU time on one thread, measured in turns in one run, the fastest of the repeats: ratios are to
be trusted more than milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from archgrad.benchmarks.memory import growth, in_new_process
from archgrad.benchmarks.reference import reference_supernet
from archgrad.benchmarks.timing import in_turns, one_thread
from archgrad.data import Augmentation, ImageData, Loader
from archgrad.data import measure as measure_pixels
from archgrad.errors import unknown
from archgrad.spaces import SPACES, SearchSpace, named

__all__ = ["HEADER", "Case", "Measurement", "cases", "measure"]

HEADER = (
    f"{'space':<16} {'C':>3} {'cells':>5} {'size':>4} {'batch':>5} | {'reference':>9} {'fused':>8} {'speed-up':>8} | "
    f"{'floor':>8} {'fused/floor':>11} | {'architecture':>12} {'of full':>7} | {'loader':>12} | {'memory':>13}"
)

Step = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A space at a size, with a batch."""

    space: str
    channels: int
    cells: int
    image_size: int
    batch: int

    def build(self) -> SearchSpace:
        """Return the space."""
        space = named(self.space)()
        sizes: dict[str, Any] = {"channels": self.channels, space.depth_knob: self.cells}
        return replace(space, **sizes)


@dataclass(frozen=True)
class Measurement:
    """Milliseconds of one step (forward, gradients of all weights and of the mixture) and megabytes at its peak.

    ``architecture`` is the step that needs the gradient of the mixture alone; ``floor`` runs the convolutions and
    nothing else, forward and backward; ``loader`` makes one augmented batch of random images.
    """

    case: Case
    reference: float
    fused: float
    architecture: float
    floor: float
    loader: float
    reference_memory: float | None
    fused_memory: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        case = self.case
        memory = "" if self.fused_memory is None else f"{self.fused_memory:4.0f}/{self.reference_memory:.0f} MB"
        return (
            f"{case.space:<16} {case.channels:>3} {case.cells:>5} {case.image_size:>4} {case.batch:>5} | "
            f"{self.reference:>6.0f} ms {self.fused:>5.0f} ms {self.reference / self.fused:>7.2f}x | "
            f"{self.floor:>5.0f} ms {self.fused / self.floor:>10.2f}x | "
            f"{self.architecture:>9.0f} ms {self.architecture / self.fused:>7.2f} | "
            f"{self.loader:>4.1f} ms {100 * self.loader / self.fused:>3.1f} % | {memory:>13}"
        )


def cases(space: str | None = None) -> list[Case]:
    """Return every space at two sizes, or one space."""
    if space is not None and space not in SPACES:
        raise unknown("space", space, SPACES)
    sized = [Case("nasbench201", 16, 1, 32, 64), Case("nasbench201", 8, 1, 16, 64)]
    for name in SPACES:
        if name != "nasbench201":
            sized += [Case(name, 8, 5, 32, 32), Case(name, 16, 5, 16, 32)]
    return [case for case in sized if space in (None, case.space)]


def measure(case: Case, repeats: int = 5, memory: bool = True) -> Measurement:
    """Measure one case."""
    with one_thread():
        steps = _steps(case)
        timed = in_turns(list(steps.values()), repeats)
    by_name = {name: step.milliseconds for name, step in zip(steps, timed, strict=True)}
    peaks = {kind: in_new_process(_peak, case, kind) if memory else None for kind in ("reference", "fused")}
    return Measurement(case, **by_name, reference_memory=peaks["reference"], fused_memory=peaks["fused"])


def _steps(case: Case) -> dict[str, Step]:
    torch.manual_seed(0)
    space = case.build()
    fused, reference = space.supernet(), reference_supernet(space)
    reference.load_state_dict(fused.state_dict())
    images = torch.randn(case.batch, 3, case.image_size, case.image_size)
    labels = torch.randint(0, 10, (case.batch,))
    mixture = _mixture(space)
    frozen = {name: weight.detach() for name, weight in fused.named_parameters()}

    def architecture() -> object:
        logits = functional_call(fused, frozen, (images, mixture))
        return torch.autograd.grad(F.cross_entropy(logits, labels), list(mixture.values()))

    return {
        "reference": _full_step(reference, images, labels, mixture),
        "fused": _full_step(fused, images, labels, mixture),
        "architecture": architecture,
        "floor": _convolutions(fused, images, mixture),
        "loader": _loading(case),
    }


def _mixture(space: SearchSpace) -> dict[str, Tensor]:
    blocks = {block.name: torch.randn(block.cells, *block.shape) for block in space.blocks}
    return {name: torch.softmax(values, -1).requires_grad_() for name, values in blocks.items()}


def _full_step(net: nn.Module, images: Tensor, labels: Tensor, mixture: dict[str, Tensor]) -> Step:
    def step() -> object:
        loss = F.cross_entropy(net(images, mixture), labels)
        return torch.autograd.grad(loss, [*net.parameters(), *mixture.values()], allow_unused=True)

    return step


def _convolutions(net: nn.Module, images: Tensor, mixture: dict[str, Tensor]) -> Step:
    """Return a step that runs every convolution of ``net`` on an input of the size it sees, and its gradients."""
    seen: list[tuple[nn.Conv2d, torch.Size]] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(module, nn.Conv2d):
            seen.append((module, inputs[0].shape))

    convolutions = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    hooks = [module.register_forward_pre_hook(note) for module in convolutions]
    with torch.no_grad():
        net(images, mixture)
    for hook in hooks:
        hook.remove()
    inputs = {shape: torch.randn(shape).contiguous(memory_format=torch.channels_last) for _, shape in seen}
    for tensor in inputs.values():
        tensor.requires_grad_()

    def step() -> object:
        for module, shape in seen:
            output = module(inputs[shape])
            torch.autograd.grad(output, [inputs[shape], module.weight], torch.ones_like(output))
        return None

    return step


def _loading(case: Case) -> Step:
    """Return a step that makes a batch as a search does, with crops and flips."""
    count = 4 * case.batch
    images = torch.randint(0, 256, (count, 3, case.image_size, case.image_size), dtype=torch.uint8)
    augmentation = Augmentation(crop_padding=case.image_size // 8, flip=True)
    data = ImageData("random", images, torch.arange(count) % 10, tuple("0123456789"), augmentation)
    loader = Loader(data, torch.arange(count), case.batch, measure_pixels(data), augmentation)
    return lambda: loader.batch(0)


def _peak(case: Case, kind: str) -> float:
    torch.manual_seed(0)
    space = case.build()
    net = space.supernet() if kind == "fused" else reference_supernet(space)
    images = torch.randn(case.batch, 3, case.image_size, case.image_size)
    return growth(_full_step(net, images, torch.randint(0, 10, (case.batch,)), _mixture(space)))
