"""Make several small tasks from CIFAR-10 and the digits, to see whether a choice made on one holds on the others.

    python examples/small_tasks.py FOLDER [IMAGES]     # needs ARCHGRAD_DATA for CIFAR-10

writes archives of so many images, 1,000 by default, that `archgrad search --data npz:FOLDER/NAME.npz` reads:

- ten        images of all ten classes of CIFAR-10, 16×16 pixels
- animals    images of bird, cat, deer, dog and horse
- mixed      images of airplane, automobile, frog, ship and truck
- few        20 images of each of the ten classes
- gray       the images of ten without color
- rotations  1,000 digits at most, turned by 0, 90, 180 or 270 degrees; the class is the turn
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import archgrad as ag

SIZE, IMAGES, FEW, DIGITS = 16, 1000, 20, 1000
ANIMALS, OTHERS = (2, 3, 4, 5, 7), (0, 1, 6, 8, 9)

Task = tuple[Tensor, Tensor]


def main(folder: Path, count: int = IMAGES) -> None:
    """Write all tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in tasks(count).items():
        np.savez_compressed(folder / f"{name}.npz", images=images.permute(0, 2, 3, 1).numpy(), labels=labels.numpy())
        print(f"{name}: {len(images)} images {list(images.shape[1:])} of {int(labels.max()) + 1} classes")


def tasks(count: int) -> dict[str, Task]:
    """Return so many images, and labels, by the name of the task."""
    cifar, digits = ag.data.cifar10(image_size=SIZE), ag.data.digits(limit=min(count, DIGITS))
    ten = cifar.limited(count, seed=0)
    few = cifar.limited(FEW * 10, seed=0)
    gray = ten.images.double().mean(1, keepdim=True).round().to(torch.uint8)
    return {
        "ten": (ten.images, ten.labels),
        "animals": of_classes(cifar, ANIMALS, count),
        "mixed": of_classes(cifar, OTHERS, count),
        "few": (few.images, few.labels),
        "gray": (gray, ten.labels),
        "rotations": rotated(digits.images),
    }


def of_classes(data: ag.data.ImageData, classes: tuple[int, ...], count: int) -> Task:
    """Return so many images of some classes, numbered anew, the same number of each."""
    own = [(data.labels == one).nonzero()[: count // len(classes), 0] for one in classes]
    labels = torch.arange(len(classes)).repeat_interleave(count // len(classes))
    return data.images[torch.cat(own)], labels


def rotated(images: Tensor) -> Task:
    """Turn each image by a quarter more than the one before; the label is the number of quarters."""
    labels = torch.arange(len(images)) % 4
    turned = [image.rot90(int(label), (1, 2)) for image, label in zip(images, labels, strict=True)]
    return torch.stack(turned), labels


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
