"""Makes a page for each method, from the recipes, the README, ``docs/recipes.md`` and the results of ``studies/``."""

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docstrings import markdown

from archgrad import recipes, spaces
from archgrad.config.toml import read_toml
from archgrad.method.bundle import Method
from archgrad.studies.published_results import published
from archgrad.studies.statistics import mean_interval

PARTS = {
    "relaxation": "relaxation",
    "hypergradient": "hypergradient",
    "arch_optimizer": "architecture optimizer",
    "discretizer": "discretizer",
    "stop": "stop rule",
    "progressive": "stages",
}
"""The parts of a method by their fields."""
DATA = ("cifar10", "cifar100", "imagenet16-120", "svhn")
TABLE = "oracle_cifar10_test_200ep"
"""The accuracy that a run of the main study records: that of its cell in the table of NAS-Bench-201."""


@cache
def pages(root: Path) -> dict[str, str]:
    """Return the pages by their paths in the site."""
    about, settings = papers(root), sections(root / "docs" / "recipes.md")
    when, measured = read_toml(Path(__file__).with_name("when.toml")), measurements(root / "studies/results/main")
    index = ["# Methods", "", "| recipe | paper | what it changes |", "|---|---|---|"]
    made = {}
    for name in recipes.RECIPES:
        paper, change = about[name]
        index.append(f"| [`{name}`]({name}.md) | {paper} | {change} |")
        lines = [f"# {name}", "", description(name), "", f"Paper: {paper}. In short: {change}.", ""]
        lines += ["## When to use it", "", when[name], "", *usage(name), "## What it changes", "", *changes(name)]
        lines += ["## Published numbers", "", *numbers(name), "", "## Measured here", "", *measured.get(name, NOT_YET)]
        made[f"methods/{name}.md"] = "\n".join([*lines, "", "## Settings and their sources", "", settings[name]])
    return {"methods/index.md": "\n".join(index), **made}


NOT_YET = ["Not measured yet: the [main study](../studies.md) has no finished run of it."]


def papers(root: Path) -> dict[str, tuple[str, str]]:
    """Return the paper of each recipe and what it changes, from the table in the README."""
    found, paper = {}, ""
    for row in re.findall(r"^\|(.*)\|$", (root / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        names = [name for name in re.findall(r"`([^`]+)`", cells[1]) if name in recipes.RECIPES]
        paper = cells[0] or paper
        found.update(dict.fromkeys(names, (paper, cells[-1])))
    return found


def sections(page: Path) -> dict[str, str]:
    """Return the table of settings of each recipe."""
    parts = re.split(r"^## `(.+)`$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text[text.index("\n|") :].strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def description(name: str) -> str:
    """Return the docstring of a recipe, without its examples."""
    return markdown(inspect.getdoc(recipes.RECIPES[name]) or "").split("\n```pycon")[0]


def usage(name: str) -> list[str]:
    """Show how it is called."""
    command = ["```console", f"$ archgrad search --method {name} --data digits", "```", ""]
    return [*command, "```python", f'result = ag.search("nasbench201", "{name}", "digits")', "```", ""]


def changes(name: str) -> list[str]:
    """Describe the parts and settings that DARTS does not have, in NAS-Bench-201."""
    space = spaces.NASBench201()
    base, method = recipes.named("darts", space), recipes.named(name, space)
    lines = []
    for kind, part in parts(method):
        if type(part) not in [type(one) for _, one in parts(base)]:
            name = type(part).__name__
            lines += [f"**{kind}: [{name}][{type(part).__module__}.{name}]**", "", quoted(part), ""]
    usual = {one.path: one.value for one in recipes.listed(base, space)}
    rows = [
        f"| `{one.path}` | {shown(usual.get(one.path))} | {shown(one.value)} |"
        for one in recipes.listed(method, space)
        if one.path not in usual or one.value != usual[one.path]
    ]
    table = ["In NAS-Bench-201:", "", "| setting | `darts` | here |", "|---|---|---|", *rows, ""] if rows else []
    return [*lines, *table] or ["Nothing: it is what the others change.", ""]


def parts(method: Method) -> Iterator[tuple[str, object]]:
    """Yield the parts of a method with their kinds."""
    members = [(kind, getattr(method, field)) for field, kind in PARTS.items()]
    members += [("regularizer", one) for one in method.regularizers]
    return ((kind, one) for kind, one in members if one is not None)


def quoted(part: object) -> str:
    """Return the docstring of a part, which has its equation, as a quotation."""
    text = markdown(inspect.getdoc(type(part)) or "").strip()
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def shown(value: object) -> str:
    """Return a value of a setting as text in a table."""
    return "" if value is None else f"`{value}`"


def numbers(name: str) -> list[str]:
    """Return what papers print for it, in each space and on each data set."""
    rows = [
        f"| {one.protocol} | {one}{'' if one.runs is None else f' ({one.runs} runs)'} | {one.source} |"
        for space in spaces.SPACES
        for searched in DATA
        for data in DATA
        for one in published(name, space, data, searched)
    ]
    head = ["| what | value | source |", "|---|---|---|"]
    return [*head, *rows] if rows else ["None that `archgrad compare` knows in its spaces."]


def measurements(study: Path) -> dict[str, list[str]]:
    """Return what the main study has found so far, by recipe."""
    found: dict[str, list[str]] = {}
    for variant, about in read_toml(study / "study.toml")["variant"].items():
        ends = [json.loads(one.read_text().splitlines()[-1]) for one in study.glob(f"*/{variant}-seed*/metrics.jsonl")]
        if ends and about["method"] in recipes.RECIPES and set(about) == {"method"}:
            found[about["method"]] = measured_lines(ends)
    return found


def measured_lines(ends: list[dict[str, object]]) -> list[str]:
    """Describe the last epochs of the runs of one method."""
    accuracies = [float(str(one[TABLE])) for one in ends]
    interval = mean_interval(accuracies)
    spread = (
        "one run has no interval" if interval is None else f"95 % interval {interval.low:.2f} to {interval.high:.2f}"
    )
    skips = sum(int(str(one["skips"])) for one in ends) / len(ends)
    collapsed = sum(one.get("diagnosis") == "collapsing" for one in ends)
    return [
        "On the CPU proxy of the [main study](../studies.md) (NAS-Bench-201 without `none`, 4,000 images of CIFAR-10 at"
        " 16×16 pixels, 40 epochs). It shows how a method behaves; it is no reproduction of a paper.",
        "",
        f"- finished seeds: {len(ends)}",
        f"- table accuracy of the cell found, CIFAR-10: {sum(accuracies) / len(accuracies):.2f} % ({spread})",
        f"- skip connections of six edges: {skips:.1f}",
        f"- runs that the doctor calls collapsing: {collapsed} of {len(ends)}",
    ]
