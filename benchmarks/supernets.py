"""One step of a supernet against the plain reference, and against its convolutions alone.

A step is forward and the gradients of all weights and of the mixture. ``architecture`` needs the gradient of the
mixture only; ``convolutions`` runs the convolutions of the network and nothing else; ``loader`` makes one augmented
batch. Memory is what a step adds to a fresh process, in megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from reference import reference_supernet
from torch import Tensor, nn
from torch.func import functional_call

from archgrad.data import Augmentation, ImageData, Loader, measure
from archgrad.spaces import SPACES, SearchSpace
from benchmarks.common import Case, Report, growth, in_new_process, options, times

Step = Callable[[], object]

CASES = [Case("nasbench201", 16, 1, 32, 64), Case("nasbench201", 8, 1, 16, 64)]
CHAINS = {"macro": 8, "mobile": 16}
"""All layers of a chain; other spaces are measured with five cells."""
CASES += [
    Case(name, channels, CHAINS.get(name, 5), image_size, 32)
    for name in SPACES
    if name != "nasbench201" and not name.startswith("darts-")  # which have the cells of DARTS
    for channels, image_size in ((8, 32), (16, 16))
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every space at two sizes."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for case in chosen.cases:
        steps = steps_of(case)
        found = dict(zip(steps, times(list(steps.values()), chosen.repeats), strict=True))
        memory = {kind: in_new_process(peak, case, kind) if chosen.memory else None for kind in ("reference", "fused")}
        report.add(
            **vars(case),
            **{f"{name}_ms": milliseconds for name, milliseconds in found.items()},
            speed_up=found["reference"] / found["fused"],
            per_convolutions=found["fused"] / found["convolutions"],
            **{f"{kind}_mb": megabytes for kind, megabytes in memory.items()},
        )
    report.store(chosen.json)


def steps_of(case: Case) -> dict[str, Step]:
    """Return everything that is timed."""
    torch.manual_seed(0)
    space = case.build()
    fused, reference = space.supernet(), reference_supernet(space)
    reference.load_state_dict(fused.state_dict())
    images, labels, mixture = inputs(space, case)
    frozen = {name: weight.detach() for name, weight in fused.named_parameters()}

    def architecture() -> object:
        logits = functional_call(fused, frozen, (images, mixture))
        return torch.autograd.grad(F.cross_entropy(logits, labels), list(mixture.values()))

    return {
        "reference": full_step(reference, images, labels, mixture),
        "fused": full_step(fused, images, labels, mixture),
        "architecture": architecture,
        "convolutions": convolutions(fused, images, mixture),
        "loader": loading(case),
    }


def inputs(space: SearchSpace, case: Case) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return random images, labels and a random mixture."""
    images = torch.randn(case.batch, 3, case.image_size, case.image_size)
    scores = {block.name: torch.randn(block.cells, *block.shape) for block in space.blocks}
    mixture = {name: torch.softmax(values, -1).requires_grad_() for name, values in scores.items()}
    return images, torch.randint(0, 10, (case.batch,)), mixture


def full_step(net: nn.Module, images: Tensor, labels: Tensor, mixture: dict[str, Tensor]) -> Step:
    """Return a step with all gradients."""

    def step() -> object:
        loss = F.cross_entropy(net(images, mixture), labels)
        return torch.autograd.grad(loss, [*net.parameters(), *mixture.values()], allow_unused=True)

    return step


def convolutions(net: nn.Module, images: Tensor, mixture: dict[str, Tensor]) -> Step:
    """Return a step that runs every convolution on an input of the size that it sees, and its gradients."""
    seen: list[tuple[nn.Conv2d, torch.Size]] = []
    layers = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    hooks = [layer.register_forward_pre_hook(lambda conv, args: seen.append((conv, args[0].shape))) for layer in layers]
    with torch.no_grad():
        net(images, mixture)
    for hook in hooks:
        hook.remove()
    shapes = {shape for _, shape in seen}
    inputs = {shape: torch.randn(shape).contiguous(memory_format=torch.channels_last) for shape in shapes}

    def step() -> None:
        for layer, shape in seen:
            output = layer(inputs[shape].requires_grad_())
            torch.autograd.grad(output, [inputs[shape], layer.weight], torch.ones_like(output))

    return step


def loading(case: Case) -> Step:
    """Return a step that makes a batch as a search does, with crops and flips."""
    count = 4 * case.batch
    images = torch.randint(0, 256, (count, 3, case.image_size, case.image_size), dtype=torch.uint8)
    augmentation = Augmentation(crop_padding=case.image_size // 8, flip=True)
    data = ImageData("random", images, torch.arange(count) % 10, tuple("0123456789"), augmentation)
    loader = Loader(data, torch.arange(count), case.batch, measure(data), augmentation)
    return lambda: loader.batch(0)


def peak(case: Case, kind: str) -> float:
    """Return the memory of a step of one kind of supernet."""
    torch.manual_seed(0)
    space = case.build()
    net = space.supernet() if kind == "fused" else reference_supernet(space)
    return growth(full_step(net, *inputs(space, case)))


if __name__ == "__main__":
    main()
