"""Make several small tasks from CIFAR-10 and the digits, to see whether a choice made on one holds on the others.

    python examples/small_tasks.py FOLDER     # needs ARCHGRAD_DATA for CIFAR-10

writes archives that `archgrad search --data npz:FOLDER/NAME.npz` reads:

- ten        1,000 images of all ten classes of CIFAR-10, 16×16 pixels
- animals    1,000 images of bird, cat, deer, dog and horse
- mixed      1,000 images of airplane, automobile, frog, ship and truck
- few        20 images of each of the ten classes
- gray       the images of ten without color
- rotations  1,000 digits, turned by 0, 90, 180 or 270 degrees; the class is the turn
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import archgrad as ag

SIZE, IMAGES, FEW = 16, 1000, 20
ANIMALS, OTHERS = (2, 3, 4, 5, 7), (0, 1, 6, 8, 9)

Task = tuple[Tensor, Tensor]


def main(folder: Path) -> None:
    """Write all tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in tasks().items():
        np.savez_compressed(folder / f"{name}.npz", images=images.permute(0, 2, 3, 1).numpy(), labels=labels.numpy())
        print(f"{name}: {len(images)} images {list(images.shape[1:])} of {int(labels.max()) + 1} classes")


def tasks() -> dict[str, Task]:
    """Return images and labels by the name of the task."""
    cifar, digits = ag.data.cifar10(image_size=SIZE), ag.data.digits(limit=IMAGES)
    ten = cifar.limited(IMAGES, seed=0)
    few = cifar.limited(FEW * 10, seed=0)
    gray = ten.images.double().mean(1, keepdim=True).round().to(torch.uint8)
    return {
        "ten": (ten.images, ten.labels),
        "animals": of_classes(cifar, ANIMALS),
        "mixed": of_classes(cifar, OTHERS),
        "few": (few.images, few.labels),
        "gray": (gray, ten.labels),
        "rotations": rotated(digits.images),
    }


def of_classes(data: ag.data.ImageData, classes: tuple[int, ...]) -> Task:
    """Return so many images of some classes, numbered anew, the same number of each."""
    own = [(data.labels == one).nonzero()[: IMAGES // len(classes), 0] for one in classes]
    labels = torch.arange(len(classes)).repeat_interleave(IMAGES // len(classes))
    return data.images[torch.cat(own)], labels


def rotated(images: Tensor) -> Task:
    """Turn each image by a quarter more than the one before; the label is the number of quarters."""
    labels = torch.arange(len(images)) % 4
    turned = [image.rot90(int(label), (1, 2)) for image, label in zip(images, labels, strict=True)]
    return torch.stack(turned), labels


if __name__ == "__main__":
    main(Path(sys.argv[1]))
