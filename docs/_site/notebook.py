"""Makes a Jupyter notebook of a page."""

import json
import re
from typing import Any


def notebook(markdown: str) -> str:
    """Return a page as a Jupyter notebook: its Python blocks are the cells of code, all else is text.

    The tests run the same blocks in the same order, so the notebook needs no run of its own.
    """
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"^```python\n(.*?)^```$", markdown, flags=re.DOTALL | re.MULTILINE)):
        code = (
            {"cell_type": "code", "execution_count": None, "outputs": []} if number % 2 else {"cell_type": "markdown"}
        )
        if part.strip():
            cells.append({"id": f"cell-{number}", **code, "metadata": {}, "source": part.strip()})
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": about, "cells": cells}, indent=1)
