"""The size of a plain network: trainable parameters and multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["Cost", "cost"]


@dataclass(frozen=True)
class Cost:
    """Trainable parameters, and multiply-adds of convolutions and matrix products for one image."""

    parameters: int
    multiply_adds: int

    def __str__(self) -> str:
        return f"{self.parameters / 1e6:.3f} M parameters, {self.multiply_adds / 1e6:.2f} M multiply-adds"


def cost(network: nn.Module, input_channels: int = 3, image_size: int = 32) -> Cost:
    """Measure a network on one image with PyTorch's own counter (two operations make one multiply-add)."""
    parameters = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    parameter = next(network.parameters())
    image = torch.zeros(1, input_channels, image_size, image_size, dtype=parameter.dtype, device=parameter.device)
    training = network.training
    network.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(image)
    finally:
        network.train(training)
    return Cost(parameters, counter.get_total_flops() // 2)
