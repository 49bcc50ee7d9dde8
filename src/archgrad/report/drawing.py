"""Draw a genotype into a file: SVG and text anywhere, PNG and PDF with matplotlib."""

from __future__ import annotations

from pathlib import Path

from archgrad.errors import UserError, unknown
from archgrad.parts.fields import checked
from archgrad.report.picture import save_picture
from archgrad.report.svg import to_svg
from archgrad.report.text import to_text
from archgrad.spaces.genotype import Genotype
from archgrad.system.files import write_text

__all__ = ["FORMATS", "draw"]

FORMATS = (".svg", ".png", ".pdf", ".txt")
_MOST_DECISIONS = 1000


@checked
def draw(genotype: Genotype, path: Path) -> Path:
    """Draw a genotype in the format of the path's suffix, and return the path."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise unknown("drawing format", suffix or path.name, FORMATS)
    if suffix != ".txt" and len(genotype.decisions) > _MOST_DECISIONS:
        raise UserError(
            f"a genotype with {len(genotype.decisions)} decisions is too large for a picture (at most "
            f"{_MOST_DECISIONS}); draw it into a .txt file."
        )
    if suffix in (".png", ".pdf"):
        save_picture(genotype, path)
        return path
    try:
        write_text(path, to_text(genotype) if suffix == ".txt" else to_svg(genotype))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error}); choose another file.") from error
    return path
