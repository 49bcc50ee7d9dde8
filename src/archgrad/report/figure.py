"""Write figures to files: reproducibly, without a display and without messages of matplotlib."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, unknown
from archgrad.system.files import write_bytes

__all__ = ["PICTURES", "can_draw", "check_picture", "save_figure", "tick_whole_epochs"]

PICTURES = (".svg", ".png", ".pdf")

_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def check_picture(path: Path) -> None:
    """Raise a UserError if a picture of this name cannot be drawn here."""
    suffix = path.suffix.lower()
    if suffix not in PICTURES:
        raise unknown("picture format", suffix or path.name, PICTURES)
    if not can_draw():
        raise UserError("curves need the package matplotlib; install it with `pip install 'archgrad[plot]'`.")


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def tick_whole_epochs(axes: Any) -> None:
    """Put tick marks at whole epochs only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def save_figure(fill: Callable[[Any], None], path: Path, size: tuple[float, float]) -> None:
    """Create a figure of this size in inches, let ``fill`` draw into it, and write it to a file."""
    try:
        write_bytes(path, _rendered(fill, size, path.suffix.lower().removeprefix(".")))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error}); choose another file.") from error


def _rendered(fill: Callable[[Any], None], size: tuple[float, float], picture: str) -> bytes:
    """Render reproducibly: the same curves give the same bytes."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs about its font cache
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        fill(figure)
        file = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": "archgrad", "svg.fonttype": "path"}):
            figure.savefig(file, format=picture, dpi=150, metadata=_UNDATED.get(picture))
    return file.getvalue()
