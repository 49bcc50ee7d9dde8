"""Data by name, as on the command line."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from archgrad.data.base import Data, no_progress
from archgrad.data.sources import SOURCES, DataSource
from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.fields import checked
from archgrad.system.files import PathLike, existing_path, exists, shown_path

__all__ = ["absolute_name", "check_data", "find_source", "load", "source_names"]


@checked
def load(
    spec: str,
    *,
    data_dir: PathLike | None = None,
    limit: int | None = None,
    image_size: int | None = None,
    resize: str = "crop",
    seed: int = 0,
    strict: bool = False,
    train: bool = True,
    progress: Callable[[int, int], None] = no_progress,
) -> Data:
    """Load the data that ``spec`` names: NAME or NAME:PATH, where NAME is in :data:`SOURCES` or ``module:Name``.

    The path of a folder alone means ``folder:PATH``.

    ``limit`` keeps that many images, every class in its proportion, and ``image_size`` resizes them; ``resize`` tells
    how, and ``strict`` refuses a broken image file (:class:`LoadOptions`). ``progress(done, total)`` is told how many
    images are read.

    >>> load("digits", limit=50, image_size=4).images.shape
    torch.Size([50, 1, 4, 4])
    """
    source, path = find_source(spec)
    return source(
        path or data_dir, train, limit=limit, image_size=image_size, resize=resize, seed=seed, strict=strict,
        progress=progress,
    )  # fmt: skip


def check_data(spec: str, data_dir: PathLike | None = None) -> None:
    """Reject an unknown source, and a path without data, before anything is read."""
    source, path = find_source(spec)
    source.check(source.located(path or data_dir))
    try:
        f"{spec}{data_dir or ''}".encode()
    except UnicodeEncodeError:
        raise UserError(f"the path of the data {shown_path(spec)} has bytes that are no text; rename it.") from None


def absolute_name(spec: str) -> str:
    """Return the name of data with its path made absolute."""
    _, path = find_source(spec)
    spec = _spelled(spec)
    return f"{spec.removesuffix(path)}{existing_path(path, 'data').resolve()}" if path else spec


def _spelled(spec: str) -> str:
    """Return the name; the path of a folder that is no name means the images in it."""
    return f"folder:{spec}" if spec and ":" not in spec and spec not in SOURCES and exists(Path(spec)) else spec


def find_source(spec: str) -> tuple[DataSource, str | None]:
    """Return the source of ``NAME``, ``NAME:PATH``, ``module:Name``, ``module:Name:PATH`` or a folder, and the path.

    >>> find_source("npz:my.npz")[1]
    'my.npz'
    """
    spec = _spelled(spec)
    name, colon, path = spec.partition(":")
    if name not in SOURCES and colon:
        own, _, path = path.partition(":")
        name = f"{name}:{own}"
    if name not in SOURCES and not _is_importable(name):
        raise unknown("data", f"{spec.partition(':')[0]}:PATH" if colon else spec, (*source_names(), "module:Name"))
    source = SOURCES.create(name)
    if source.takes_path and not path:
        raise UserError(f"the data {shortened(spec)} has no path; write {name}:PATH, such as {name}:my-data.")
    if spec != name and not source.takes_path:
        raise UserError(f"the data {name!r} takes no path, but {shortened(spec)} has one; write {name}.")
    return source, path or None


def source_names() -> dict[str, DataSource]:
    """Return all sources of the package by what the command line writes.

    >>> list(source_names())
    ['digits', 'cifar10', 'cifar100', 'imagenet16:PATH', 'parquet:PATH', 'folder:PATH', 'npz:PATH']
    """
    sources = {name: SOURCES.create(name) for name in SOURCES}
    return {f"{name}:PATH" if source.takes_path else name: source for name, source in sources.items()}


def _is_importable(name: str) -> bool:
    """Tell whether a name is ``module:Name``, and the module's package exists."""
    steps = name.replace(":", ".").split(".")
    if ":" not in name or not all(map(str.isidentifier, steps)):
        return False
    try:
        return find_spec(steps[0]) is not None
    except ValueError:  # a module that was not imported from a file, such as __main__
        return False
