"""What tests of the loop share."""

from __future__ import annotations

import pytest


@pytest.fixture
def _trusted_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no differences with exact derivatives: test_trust.py does, and in a grid it would be most of the time."""
    for name in ("compare_products", "compare_regularizers"):
        monkeypatch.setattr(f"archgrad.loop.run.{name}", lambda *arguments: None)
