"""Images: sources, splits, augmentation and batches."""

from __future__ import annotations

from archgrad.data.augment import Augmentation
from archgrad.data.catalog import load
from archgrad.data.dataset import ImageData, LoadOptions, no_progress
from archgrad.data.loader import Batch, Loader, evaluation_batches
from archgrad.data.normalize import Normalization, measure
from archgrad.data.sources import SOURCES, Cifar10, Cifar100, DataSource, Digits, Folder, Npz, Parquet
from archgrad.data.split import HALVES, Split, parse_split, split, split_fractions

__all__ = [
    "HALVES",
    "SOURCES",
    "Augmentation",
    "Batch",
    "DataSource",
    "ImageData",
    "LoadOptions",
    "Loader",
    "Normalization",
    "Parquet",
    "Split",
    "cifar10",
    "cifar100",
    "digits",
    "evaluation_batches",
    "folder",
    "load",
    "measure",
    "no_progress",
    "npz",
    "parquet",
    "parse_split",
    "split",
    "split_fractions",
]

digits, cifar10, cifar100 = Digits(), Cifar10(), Cifar100()
folder, npz, parquet = Folder(), Npz(), Parquet()
