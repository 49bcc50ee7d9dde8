"""What the README shows works."""

from __future__ import annotations

import itertools
import re
import sys
import types
from pathlib import Path

import pytest

import archgrad as ag

README = Path(__file__).parents[1] / "README.md"
DOCUMENTATION = sorted(README.parent.glob("docs/**/*.md"))
PAGES = [README, *DOCUMENTATION, *(README.parent / f"{n}.md" for n in ("CONTRIBUTING", "CHANGELOG"))]
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def name(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(README.parent).as_posix()


@pytest.fixture
def shown(monkeypatch) -> types.ModuleType:
    """A module for the code of the README to live in, as dataclasses expect."""
    module = types.ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)
    return module


def test_the_examples_run(shown, capsys):
    for block in BLOCKS:
        exec(compile(block, str(README), "exec"), shown.__dict__)  # noqa: S102 - our own file
    printed = capsys.readouterr().out.splitlines()
    assert ag.Genotype.parse(printed[0]) == shown.result.genotype
    assert any("multiply-adds" in line for line in printed)
    assert printed[-1] == "{'a': tensor(0.5000)}"
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=60)
    assert len(ag.search(space, shown.method, data, epochs=1, batch_size=20).history) == 1


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name)
def test_the_code_in_the_documentation_runs(page, shown):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), shown.__dict__)  # noqa: S102 - our own file


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
