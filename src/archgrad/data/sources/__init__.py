"""Where images come from: one file per source."""

from archgrad.data.sources.base import DataSource
from archgrad.data.sources.cifar import Cifar10, Cifar100
from archgrad.data.sources.digits import Digits
from archgrad.data.sources.folder import Folder
from archgrad.data.sources.imagenet16 import ImageNet16
from archgrad.data.sources.npz import Npz
from archgrad.data.sources.parquet import Parquet
from archgrad.parts.registry import Registry

__all__ = ["SOURCES", "Cifar10", "Cifar100", "DataSource", "Digits", "Folder", "ImageNet16", "Npz", "Parquet"]

SOURCES = Registry[DataSource](
    "data",
    DataSource,
    {
        "digits": Digits,
        "cifar10": Cifar10,
        "cifar100": Cifar100,
        "imagenet16": ImageNet16,
        "parquet": Parquet,
        "folder": Folder,
        "npz": Npz,
    },
)
"""The names on the command line."""
