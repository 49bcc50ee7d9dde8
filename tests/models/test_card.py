"""The card beside a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from varied_spaces import small_space

from tests.models.trained import model_of

ABOUT = {"data": "folder:`<img src=x onerror=alert(1)>`", "epochs": 3, "test": {"loss": 1.25, "accuracy": 51.5}}


def test_a_saved_model_has_a_card(tmp_path: Path) -> None:
    model = replace(model_of(small_space("nasbench201")), about={**ABOUT, "interval": [40.25, 62.5]})
    card = (model.save(tmp_path) / "README.md").read_text(encoding="utf-8")
    for fact in (
        "`nasbench201`",
        str(model.genotype),
        "`51.5`",
        "`40.25, 62.5`",
        "RGB",
        "16 pixels",
        "`0.4, 0.5, 0.6`",
    ):
        assert fact in card
    assert "trained on: `folder:'<img src=x onerror=alert(1)>'`" in card  # code, which the name cannot end
    assert 'a \\"quoted\\" \\\\ name' in card


def test_a_card_says_what_is_unknown(tmp_path: Path) -> None:
    model = replace(model_of(small_space("nasbench201")), about={"predicts": "numbers"})
    card = (model.save(tmp_path) / "README.md").read_text(encoding="utf-8")
    assert "- trained on: `unknown`" in card
    assert "- accuracy: `unknown`" in card


def test_a_card_is_replaced_until_somebody_makes_it_theirs(tmp_path: Path) -> None:
    model, path = model_of(small_space("nasbench201")), tmp_path / "README.md"
    model.save(tmp_path)
    replace(model, about={"accuracy": 77.0}).save(tmp_path)
    assert "`77.0`" in path.read_text(encoding="utf-8")
    path.write_text("# Ours\n", encoding="utf-8")
    model.save(tmp_path)
    assert path.read_text(encoding="utf-8") == "# Ours\n"
