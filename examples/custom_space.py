"""A search space of one's own, with an operation of one's own: `python examples/custom_space.py`."""

from typing import ClassVar

from torch import Tensor, nn

import archgrad as ag
from archgrad.operations import AveragePool, Identity, Operation, ReLUConvBN, Site, Vocabulary


class SqueezeExcite(Operation):
    """A convolution whose channels are weighted by a look at the whole image."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.conv = ReLUConvBN(site.channels, site, 3)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(site.channels, site.channels, 1), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """Convolve and weigh."""
        y = self.conv(x)
        return y * self.gate(y)


class Excited(ag.spaces.StagedSpace):
    """Cells of three nodes: skip, pool, or a convolution that knows what it looks at."""

    name = "excited"
    nodes = 3
    operations: ClassVar[Vocabulary] = {
        "skip_connect": lambda site: Identity(),
        "pool": AveragePool,
        "excite": SqueezeExcite,
    }


def main(images: int = 400, epochs: int = 1) -> ag.SearchResult:
    """Search on handwritten digits and measure what was found."""
    space = Excited(channels=8, cells_per_stage=1)
    result = ag.search(space, ag.recipes.darts(), ag.data.digits(limit=images), epochs=epochs, seed=0)
    print(result.genotype)
    print(space.cost(result.genotype, input_channels=1, image_size=8))
    return result


if __name__ == "__main__":
    main()
