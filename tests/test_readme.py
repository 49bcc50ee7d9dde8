"""What the README and the documentation show works."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import sys
import types
from pathlib import Path

import pytest

import archgrad as ag

README = Path(__file__).parents[1] / "README.md"
DOCUMENTATION = sorted(README.parent.glob("docs/**/*.md"))
PAGES = [README, *DOCUMENTATION, *(README.parent / f"{n}.md" for n in ("CONTRIBUTING", "CHANGELOG"))]


def name(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(README.parent).as_posix()


@pytest.fixture
def shown(monkeypatch, tmp_path) -> types.ModuleType:
    """A module for the code of a page to live in, as dataclasses expect."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)
    return module


def blocks_of(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def run_code(page: Path, module: types.ModuleType) -> None:
    """Run the Python blocks of a page in order, in one module."""
    for block in blocks_of(page):
        exec(compile(block, str(page), "exec"), module.__dict__)  # noqa: S102 - our own file


def test_the_code_of_the_readme_runs(shown, capsys):
    run_code(README, shown)
    genotype, accuracy, cost = capsys.readouterr().out.splitlines()
    assert ag.Genotype.parse(genotype) == shown.result.genotype
    assert 10 < float(accuracy) <= 100
    assert "multiply-adds" in cost


def test_the_readme_is_a_front_door():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert [recipe for recipe in ag.recipes.RECIPES if f"`{recipe}`" not in text] == []


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name)
def test_the_code_in_the_documentation_runs(page, shown):
    run_code(page, shown)


def test_the_notebook_of_the_tutorial_has_the_code_that_runs():
    tutorial = README.parent / "docs" / "tutorial.md"
    make = runpy.run_path(str(tutorial.parent / "_site" / "notebook.py"))["notebook"]
    cells = json.loads(make(tutorial.read_text(encoding="utf-8")))["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.strip() for block in blocks_of(tutorial)]
    assert "archgrad fit" in "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")


def test_the_parts_of_the_documentation_search(shown, capsys):
    run_code(README.parent / "docs" / "parts.md", shown)
    assert capsys.readouterr().out == "{'a': tensor(0.5000)}\n"
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=60)
    assert len(ag.search(space, shown.method, data, epochs=1, batch_size=20).history) == 1


def anchors_of(text: str) -> set[str]:
    """The names by which GitHub links to the headings of a page."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", prose, flags=re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        again = (f"{slug}-{number}" for number in itertools.count(1))
        anchors.add(next(name for name in itertools.chain([slug], again) if name not in anchors))
    return anchors


def test_headings_are_linked_to_as_on_github():
    text = "# The α, in `code`\n```console\n# no heading\n```\n## [A link](x.md): two-fold?\n### Again\n### Again\n"
    assert anchors_of(text) == {"the-α-in-code", "a-link-two-fold", "again", "again-1"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_lead_somewhere(page):
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), f"{name(page)} links to {link}"
        if anchor:
            assert anchor in anchors_of(target.read_text(encoding="utf-8")), f"{name(page)} links to {link}#{anchor}"
