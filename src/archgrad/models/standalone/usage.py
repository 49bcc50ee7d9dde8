"""Load the weights, and classify images."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from archgrad.models.standalone.staged import Network

INPUT_CHANNELS, CLASSES = 3, ["a", "b"]
IMAGE_SIZE, RESIZE, MEAN, STD, WEIGHTS = 8, "crop", [0.5], [0.5], "weights.safetensors"

__all__ = ["load", "prepare"]

# ---


def load(path: str | Path = Path(__file__).with_name(WEIGHTS)) -> nn.Module:
    """Return the network with its trained weights, in evaluation mode."""
    network = Network()
    network.load_state_dict(load_file(path))
    return network.eval()


def prepare(path: str | Path) -> Tensor:
    """Read an image file as the input of the network; Pillow's resizing differs a little from the one in training."""
    from PIL import Image, ImageOps

    image = Image.open(path).convert("L" if INPUT_CHANNELS == 1 else "RGB")
    size = (IMAGE_SIZE, IMAGE_SIZE)
    if RESIZE == "crop":
        image = ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    elif RESIZE == "pad":
        image = ImageOps.pad(image, size, Image.Resampling.BILINEAR)
    else:
        image = image.resize(size, Image.Resampling.BILINEAR)
    pixels = torch.tensor(list(image.tobytes()), dtype=torch.float32).reshape(IMAGE_SIZE, IMAGE_SIZE, INPUT_CHANNELS)
    return ((pixels / 255 - torch.tensor(MEAN)) / torch.tensor(STD)).permute(2, 0, 1)[None]


if __name__ == "__main__":
    trained = load()
    for name in sys.argv[1:]:
        with torch.inference_mode():
            probabilities = trained(prepare(name)).softmax(1)[0]
        best = int(probabilities.argmax())
        print(f"{name}: {CLASSES[best]} ({probabilities[best]:.1%})")
