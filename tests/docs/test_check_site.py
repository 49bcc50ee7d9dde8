"""The checks of the built site."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "docs" / "_site"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html#there">', ""),
        ('<a href="https://example.org">', ""),
        ('<a href="b.html#nowhere">', "b.html#nowhere has no such heading"),
        ('<a href="c.html">', "c.html leads nowhere"),
        ('<img src="pictures/c.png">', "pictures/c.png leads nowhere"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
    ],
)
def test_a_broken_page_is_found(body: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    check_site = importlib.import_module("check_site")
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    found = [one for one in check_site.problems(tmp_path) if not one.startswith("the reference lacks archgrad.")]
    assert found == [f"a.html: {problem}"] * bool(problem)
    assert "the reference lacks archgrad.loop.search" in check_site.problems(tmp_path)
