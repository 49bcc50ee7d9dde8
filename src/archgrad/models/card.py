"""The model card: a README.md beside a model, which tells people what it is and how to use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.models.model import Model
from archgrad.system.files import exists, read_text, write_text

__all__ = ["model_card", "write_card"]

_MARK = "<!-- archgrad wrote this card; without this line it is yours, and stays as it is -->"
_UNKNOWN = "unknown"
_CARD = """\
{mark}
# Model card

A network from the search space {space} of archgrad, with {parameters:,} parameters and
{outputs} outputs. Its cell:

    {genotype}

## Data and accuracy

{facts}

Accuracies are in per cent. It was trained on these images only: measure it on yours before you rely on it.

## Preprocessing

Images are {color}, made square by {resize}, resized to {size} pixels a side,
scaled to 0 … 1, and normalized:

- mean {mean}
- deviation {deviation}

`archgrad predict` and `Model.predict` do this themselves; `model.preprocessing(images)` does it alone.

## Use

```console
$ archgrad predict FOLDER photo.jpg
$ archgrad export FOLDER -o model.onnx
```

```python
import archgrad as ag

model = ag.Model.load("FOLDER")  # the folder of this file
model.predict(images)  # images: uint8 [N, channels, height, width], of any size
```

The outputs, in their order:

    {classes}
"""


def write_card(model: Model, folder: Path) -> None:
    """Write the card of a model as README.md; one that somebody else wrote, or made their own, stays as it is."""
    path = folder / "README.md"
    try:
        own = not exists(path) or read_text(path, "model card", 1 << 26).startswith(_MARK)
    except UserError:
        own = False
    if own:
        write_text(path, model_card(model))


def model_card(model: Model) -> str:
    """Return the card as Markdown; names that come from data are shown as code."""
    about, images = model.about, model.preprocessing
    trained = [f"- {name}: {_code(about.get(key, _UNKNOWN))}" for key, name in _TRAINED.items()]
    return _CARD.format(
        mark=_MARK,
        space=_code(model.space.name),
        parameters=sum(one.numel() for one in model.network.parameters()),
        outputs=len(model.classes),
        genotype=_line(str(model.genotype)),
        facts="\n".join([*trained, *_measured(about)]),
        color={1: "gray", 3: "RGB"}.get(images.channels, f"{images.channels}-channel"),
        resize=_code(images.resize),
        size=images.image_size,
        mean=_numbers(images.normalization.mean),
        deviation=_numbers(images.normalization.std),
        classes=json.dumps(list(model.classes), ensure_ascii=False),
    )


_TRAINED = {"data": "trained on", "task": "task", "epochs": "epochs", "seed": "seed"}


def _measured(about: Any) -> Iterator[str]:
    """Yield what is known of its accuracy; ``about`` may hold anything."""
    sets = {"test": "test images", "heldout": "held-out images"}
    known = {name: about[name] for name in sets if isinstance(about.get(name), dict) and about[name]}
    for name, values in known.items():
        yield f"- on {sets[name]}: {', '.join(f'{_code(key)} {_code(_short(one))}' for key, one in values.items())}"
    if isinstance(about.get("interval"), list | tuple):
        metric = _code(about.get("metric", "accuracy"))
        yield f"- 95 % interval of the {metric} on test images: {_numbers(about['interval'])}"
    if not known:
        yield f"- accuracy: {_code(about.get('accuracy', _UNKNOWN))}"


def _numbers(values: Any) -> str:
    return _code(", ".join(_short(one) for one in values))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _line(text: str) -> str:
    return " ".join(text.split())


def _code(value: Any) -> str:
    """Return a value as code, which no name can end."""
    return f"`{_line(str(value)).replace('`', chr(39))}`"
