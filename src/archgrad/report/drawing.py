"""Draw a genotype into a file: a picture if Graphviz is installed, else text."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from archgrad.errors import UserError, unknown
from archgrad.parts.fields import checked
from archgrad.report.dot import to_dot
from archgrad.report.text import to_text
from archgrad.spaces.genotype import Genotype
from archgrad.system.files import write_bytes

__all__ = ["FORMATS", "draw", "graphviz_available", "to_svg"]

_PICTURES = (".svg", ".png", ".pdf")
_SOURCES = (".dot", ".gv")
FORMATS = (*_PICTURES, *_SOURCES, ".txt")
_PNG_DPI = 200
_MOST_DECISIONS = 1000


def graphviz_available() -> bool:
    """Tell whether the Python package graphviz and the program ``dot`` are both installed."""
    return find_spec("graphviz") is not None and shutil.which("dot") is not None


@checked
def draw(genotype: Genotype, path: Path) -> Path:
    """Draw a genotype in the format of the path's suffix, and return the written file.

    Without Graphviz, a text drawing replaces a picture: the returned path then ends in ``.txt``, and the caller should
    say so.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise unknown("drawing format", suffix or path.name, FORMATS)
    if suffix in _PICTURES and not graphviz_available():
        path, suffix = path.with_suffix(".txt"), ".txt"
    content = _drawn(genotype, suffix)
    try:
        write_bytes(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error}); choose another file.") from error
    return path


@checked
def to_svg(genotype: Genotype) -> str:
    """Return a drawing as SVG; Graphviz must be installed."""
    return _render(genotype, "svg").decode()


def _drawn(genotype: Genotype, suffix: str) -> bytes:
    if suffix == ".txt":
        return to_text(genotype).encode()
    if suffix in _SOURCES:
        return to_dot(genotype).encode()
    return _render(genotype, suffix.removeprefix("."))


def _render(genotype: Genotype, picture: str) -> bytes:
    import graphviz

    if len(genotype.decisions) > _MOST_DECISIONS:
        raise UserError(
            f"a genotype with {len(genotype.decisions)} decisions is too large to lay out as a picture (at most "
            f"{_MOST_DECISIONS}); draw it into a .txt or .dot file."
        )
    source = to_dot(genotype, dpi=_PNG_DPI if picture == "png" else None)
    try:
        content: bytes = graphviz.Source(source).pipe(format=picture, quiet=True)
    except (OSError, graphviz.ExecutableNotFound, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or str(error)
        raise UserError(
            f"Graphviz could not make the {picture} picture ({reason[:300]}); check that 'dot -T{picture}' works, or "
            "draw into a .txt or .dot file."
        ) from None
    return content
