"""Decode untrusted image files into one tensor, in little memory."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archgrad.data.base import LoadOptions
from archgrad.data.resize import resize
from archgrad.errors import BrokenImageError, ImageSizeError, UserError, missing_extra, reason
from archgrad.system.memory import check_images
from archgrad.system.warn_once import warn_once

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["BrokenFiles", "Encoded", "decode_all", "decode_one", "first_sides", "image_suffixes", "image_tensor"]

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF", "ICO", "PCX", "QOI", "SGI", "TGA")
"""The formats of Pillow that hold pixels; not EPS, which runs a program."""
_LARGE = 1 << 22
"""Images of more pixels must be resized, and are shrunk while they are decoded; smaller ones are resized exactly."""
_STRIP_PIXELS = 1 << 20
_GROUP_FILES, _GROUP_BYTES = 1024, 1 << 25
"""The most that is decoded before it is resized."""
_ORIENTATION = 0x0112
"""The tag of EXIF that tells how a camera was held."""
_FLIPPED = {2: (2,), 3: (1, 2), 4: (1,), 5: (), 6: (2,), 7: (1, 2), 8: (1,)}
"""The axes of [C, H, W] that are reversed for each orientation, after H and W are swapped from 5 on."""
_MOST_BROKEN = 20
"""One image of so many may be broken."""

_logger = logging.getLogger(__name__)

Sides = tuple[int, int]


class Encoded(NamedTuple):
    """An image file: its name in error messages, what opens it, and its folder and name in reports."""

    name: str
    open: Callable[[], IO[bytes]]
    place: str = ""


class BrokenFiles:
    """The broken ones of ``count`` image files, by number: a twentieth may be broken, and at least one.

    :meth:`add` raises an error if there are more, or at the first if it is ``strict``.
    """

    def __init__(self, count: int, strict: bool) -> None:
        self.count, self.strict = count, strict
        self.names: dict[int, str] = {}

    def add(self, number: int, name: str, error: BrokenImageError) -> None:
        """Note a broken file."""
        if self.strict:
            raise error
        self.names[number] = name
        if len(self.names) > max(1, self.count // _MOST_BROKEN):
            raise UserError(
                f"at least {len(self.names)} of {self.count} images cannot be read ({self._first_names()}), and at "
                f"most {100 // _MOST_BROKEN} % may be left out; replace or remove them. The last one: {error}"
            ) from error

    def say(self, what: str) -> None:
        """Log how many files are broken, their first names, and ``what`` becomes of them."""
        if self.names:
            warn_once(
                _logger, "%d of %d images cannot be read and are %s: %s (--strict refuses them).", len(self.names),
                self.count, what, self._first_names(),
            )  # fmt: skip

    def _first_names(self) -> str:
        names = list(self.names.values())
        return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def decode_all(files: Iterable[Encoded], count: int, options: LoadOptions) -> tuple[Tensor, BrokenFiles]:
    """Decode ``count`` files into uint8 [N, C, H, W]: C is 1 if all are gray, else 3. Leave out the broken ones.

    With ``image_size`` each is resized immediately; without it all must have the same size. Besides the result, the
    memory holds one image as Pillow decodes it (up to 358 MB) and a group of decoded ones (32 MB).
    """
    result, done, broken = torch.empty(0, 0, 0, 0), 0, BrokenFiles(count, options.strict)
    for group in _groups(iter(files), options.image_size, broken):
        images = torch.cat(
            _same_channels([_resized(list(same), options) for _, same in groupby(group, attrgetter("shape"))])
        )
        if images.shape[1] > result.shape[1]:
            check_images(count * images[0].numel())
            larger = torch.empty(count, *images.shape[1:], dtype=torch.uint8)
            if done:
                larger[:done] = result[:done]
            result = larger
        result[done : done + len(images)] = images
        done += len(images)
        options.progress(done + len(broken.names), count)
    return result[:done], broken


def decode_one(file: Encoded, options: LoadOptions, channels: int) -> Tensor:
    """Decode one file into uint8 [C, H, W] with so many channels: gray becomes color, or color gray."""
    image = _resized([_decode(file, options.image_size)], options)[0]
    if image.shape[0] == 3 and channels == 1:
        warn_once(_logger, "some images have color, but the first ones are gray: all become gray.")
        return image_tensor(_pillow().fromarray(image.permute(1, 2, 0).contiguous().numpy()).convert("L"))
    return image.expand(channels, -1, -1)


def first_sides(files: Iterable[Encoded]) -> Sides:
    """Return the height and width of the first image that can be read, (0, 0) if there is none."""
    return next((sides for _, sides in _all_sides(files)), (0, 0))


def _all_sides(files: Iterable[Encoded]) -> Iterator[tuple[str, Sides]]:
    """Yield the names of images, with height and width from their headers; leave out broken files."""
    for file in files:
        with suppress(BrokenImageError), _opened(file) as image:
            yield file.name, (image.height, image.width)


def image_tensor(image: Image.Image) -> Tensor:
    """Return an image of Pillow as uint8 [C, H, W], C being 1 for gray and 3 for color, upright as EXIF says."""
    return _upright(image, _array(image))


def image_suffixes() -> set[str]:
    """Return the endings of the names of files that can be decoded."""
    formats = _formats()
    return {suffix for suffix, kind in _pillow().registered_extensions().items() if kind in formats}


def _groups(files: Iterator[Encoded], size: int | None, broken: BrokenFiles) -> Iterator[list[Tensor]]:
    """Decode the files into groups; reject images of different sizes unless they are resized."""
    group: list[Tensor] = []
    first: tuple[str, Sides] | None = None
    held = 0
    for number, file in enumerate(files):
        try:
            image = _decode(file, size)
        except BrokenImageError as error:
            broken.add(number, file.name, error)
            continue
        sides = (image.shape[1], image.shape[2])
        first = first or (file.name, sides)
        if size is None and sides != first[1]:
            raise _different_sizes([first, (file.name, sides), *_all_sides(files)])
        group.append(image)
        held += image.numel()
        if len(group) == _GROUP_FILES or held > _GROUP_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


def _resized(images: list[Tensor], options: LoadOptions) -> Tensor:
    stacked = torch.stack(images)
    return stacked if options.image_size is None else resize(stacked, options.image_size, options.resize)


def _same_channels(tensors: list[Tensor]) -> list[Tensor]:
    """Convert gray tensors [N, 1, H, W] to color if any other tensor has color."""
    channels = max(tensor.shape[1] for tensor in tensors)
    return [tensor.expand(-1, channels, -1, -1) for tensor in tensors]


def _decode(file: Encoded, size: int | None) -> Tensor:
    """Decode one file into uint8 [C, H, W], C being 1 or 3; shrink a large one that will be resized to ``size``."""
    with _opened(file) as image:
        if image.width * image.height <= _LARGE:
            return image_tensor(image)
        if size is None:
            raise ImageSizeError(
                f"the image {file.name} has {image.width}×{image.height} pixels; resize images of more than {_LARGE} "
                f"pixels with --image-size, such as 32 or 64."
            )
        image.draft(None, (2 * size, 2 * size))  # a JPEG is decoded at 1/2, 1/4 or 1/8 of its size
        factor = min(image.size) // (2 * size)
        return _upright(image, _array(image) if factor < 2 else _shrunk(image, factor))


@contextmanager
def _opened(file: Encoded) -> Iterator[Image.Image]:
    """Open an image, of which Pillow reads only the header at first; reject what is damaged or too large."""
    pillow = _pillow()
    try:
        with file.open() as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pillow.DecompressionBombWarning)  # of more than MAX_IMAGE_PIXELS
            yield pillow.open(stream, formats=_formats())
    except (MemoryError, BrokenImageError, ImageSizeError):
        raise
    except UserError as problem:  # of the file
        raise BrokenImageError(problem) from problem
    except Exception as problem:  # Pillow's readers raise many kinds of error on damaged files
        raise BrokenImageError(
            f"the image {file.name} cannot be read ({reason(problem)}); replace or remove it. "
            f"It must be one of {', '.join(_FORMATS)} and at most {pillow.MAX_IMAGE_PIXELS} pixels."
        ) from problem


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("Pillow", "decoding images", "images") from None
    return Image


@cache
def _formats() -> tuple[str, ...]:
    """Return the formats that this Pillow was built with."""
    pillow = _pillow()
    pillow.init()
    return tuple(name for name in _FORMATS if name in pillow.OPEN)


def _array(image: Image.Image) -> NDArray[np.uint8]:
    """Return the pixels as bytes [H, W] or [H, W, 3]."""
    if image.mode.startswith("I"):  # 16-bit gray, which Pillow would clip instead of scaling
        deep = np.asarray(image)
        if deep.min() < 0 or deep.max() > 65535:
            raise ValueError("its pixels have more than 16 bits")
        return (deep >> 8).astype(np.uint8)
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    if image.mode in {"1", "L", "LA"}:
        return np.array(image.convert("L"))
    # Pillow warns about a palette with transparency unless it is converted through RGBA.
    return np.array(image.convert("RGBA" if image.mode == "P" else "RGB").convert("RGB"))


def _shrunk(image: Image.Image, factor: int) -> NDArray[np.uint8]:
    """Return the mean of each square of ``factor`` pixels a side, in strips: the converted image is never whole."""
    rows = factor * max(1, _STRIP_PIXELS // (image.width * factor))
    strips = []
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        strips.append(np.asarray(_pillow().fromarray(_array(strip)).reduce(factor)))
    return np.concatenate(strips)


def _upright(image: Image.Image, array: NDArray[np.uint8]) -> Tensor:
    """Return pixels [H, W] or [H, W, 3] of an image as a tensor [C, H, W], turned as its EXIF data says."""
    pixels, held = torch.from_numpy(array), None
    pixels = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
    with suppress(Exception):  # damaged EXIF data does not make an image unreadable
        held = image.getexif().get(_ORIENTATION)
    if held not in _FLIPPED:
        return pixels
    return (pixels.transpose(1, 2) if held >= 5 else pixels).flip(_FLIPPED[held])


def _different_sizes(sizes: list[tuple[str, Sides]]) -> ImageSizeError:
    (name, least), (other, most) = (choose(sizes, key=lambda size: np.prod(size[1])) for choose in (min, max))
    shortest = min(min(size) for _, size in sizes)
    return ImageSizeError(
        f"the images have different sizes, from {least[0]}×{least[1]} ({name}) to {most[0]}×{most[1]} pixels "
        f"({other}); resize them with --image-size {shortest}, the shortest side of all, or less."
    )
