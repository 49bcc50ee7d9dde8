"""Images: sources, splits, augmentation and batches."""

from __future__ import annotations

from archgrad.data.augment import Augmentation
from archgrad.data.catalog import SOURCES, load
from archgrad.data.dataset import ImageData
from archgrad.data.loader import Batch, Loader, evaluation_batches
from archgrad.data.normalize import Normalization, measure
from archgrad.data.sources.cifar import cifar10, cifar100
from archgrad.data.sources.digits import digits
from archgrad.data.sources.folder import folder
from archgrad.data.sources.npz import npz
from archgrad.data.sources.parquet import parquet
from archgrad.data.split import HALVES, Split, parse_split, split, split_fractions

__all__ = [
    "HALVES",
    "SOURCES",
    "Augmentation",
    "Batch",
    "ImageData",
    "Loader",
    "Normalization",
    "Split",
    "cifar10",
    "cifar100",
    "digits",
    "evaluation_batches",
    "folder",
    "load",
    "measure",
    "npz",
    "parquet",
    "parse_split",
    "split",
    "split_fractions",
]
