"""A plain supernet, one module per operation per edge, as the published code runs it.

It exists to be obviously right and to be measured against: the fused supernet must give the same logits and gradients,
faster. Its parameters have the names of the fused one's, so one ``state_dict`` fits both.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from archgrad.spaces.chain import Chain
from archgrad.spaces.darts import DARTS
from archgrad.spaces.nasbench1shot1 import NASBench1Shot1
from archgrad.spaces.nasbench201 import NASBench201
from archgrad.spaces.space import SearchSpace
from archgrad.supernet import SupernetOptions
from reference.chains import ChainLayer, ChainNet
from reference.edges import Cell, DARTSNet, StagedNet
from reference.nodes import NodeCell, OneShotNet

__all__ = ["reference_supernet"]


def reference_supernet(
    space: SearchSpace, options: SupernetOptions | None = None, *, num_classes: int = 10, input_channels: int = 3
) -> nn.Module:
    """Build the plain supernet ``net(x, mixture, seed=0) -> logits`` of a space; it knows no dropping of any kind."""
    options = space.completed_options(options)
    if isinstance(space, NASBench201):
        return _Body(StagedNet(space, options, num_classes, input_channels))
    if isinstance(space, DARTS):
        return _Body(DARTSNet(space, options, num_classes, input_channels))
    if isinstance(space, Chain):
        return _Body(ChainNet(space, options, num_classes, input_channels))
    assert isinstance(space, NASBench1Shot1), f"there is no reference of {space.name}"
    return _Body(OneShotNet(space, options, num_classes, input_channels))


class _Body(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(
        self, x: Tensor, mixture: Mapping[str, Tensor], seed: int = 0, auxiliary: bool = False, skip: float = 0.0
    ) -> Tensor | tuple[Tensor, Tensor]:
        for module in self.modules():
            if isinstance(module, Cell | NodeCell | ChainLayer):
                module.skip = skip
        output: Tensor | tuple[Tensor, Tensor] = self.body(x, mixture, seed, auxiliary)
        return output
