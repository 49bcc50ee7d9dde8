"""What a search reads: sources, datasets, splits, augmentation and batches."""

from __future__ import annotations

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions, no_progress
from archgrad.data.catalog import load
from archgrad.data.dataset import DatasetData, ImageData, duplicates_in
from archgrad.data.from_dataset import as_data, from_dataset
from archgrad.data.loader import Batch, Loader
from archgrad.data.normalize import Normalization, measure, normalization_of
from archgrad.data.sources import SOURCES, Cifar10, Cifar100, DataSource, Digits, Folder, ImageNet16, Npz, Parquet
from archgrad.data.split import HALVES, Split, parse_split, split, split_fractions

__all__ = [
    "HALVES",
    "SOURCES",
    "Augmentation",
    "Batch",
    "Data",
    "DataSource",
    "DatasetData",
    "ImageData",
    "LoadOptions",
    "Loader",
    "Normalization",
    "Parquet",
    "Split",
    "as_data",
    "cifar10",
    "cifar100",
    "digits",
    "duplicates_in",
    "folder",
    "from_dataset",
    "imagenet16",
    "load",
    "measure",
    "no_progress",
    "normalization_of",
    "npz",
    "parquet",
    "parse_split",
    "split",
    "split_fractions",
]

digits = Digits()
cifar10 = Cifar10()
cifar100 = Cifar100()
imagenet16 = ImageNet16()
folder = Folder()
npz = Npz()
parquet = Parquet()
