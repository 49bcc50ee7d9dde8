"""The operations that an edge can compute, and how they share work on one input."""

from archgrad.operations.base import Factory, Operation, Site, Source, Term, Vocabulary, Weighted
from archgrad.operations.inverted import InvertedResidual, Projection
from archgrad.operations.layers import (
    AveragePool,
    ConvBNReLU,
    DepthwiseConv2d,
    DilatedConv,
    FactorizedReduce,
    Identity,
    MaxPool,
    Noise,
    NormedOperation,
    ReLUConvBN,
    SeparableConv,
    Zero,
)

__all__ = [
    "AveragePool",
    "ConvBNReLU",
    "DepthwiseConv2d",
    "DilatedConv",
    "FactorizedReduce",
    "Factory",
    "Identity",
    "InvertedResidual",
    "MaxPool",
    "Noise",
    "NormedOperation",
    "Operation",
    "Projection",
    "ReLUConvBN",
    "SeparableConv",
    "Site",
    "Source",
    "Term",
    "Vocabulary",
    "Weighted",
    "Zero",
]
