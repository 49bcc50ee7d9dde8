from __future__ import annotations

import sys
from pathlib import Path

import pytest

import archgrad as ag
from archgrad.errors import UserError
from archgrad.parts.registry import Registry, import_path
from archgrad.relaxations import RELAXATIONS, Softmax

OWN = """
from dataclasses import dataclass
from archgrad.relaxations import Softmax

@dataclass(frozen=True)
class Sharp(Softmax):
    power: float = 2.0
"""

BASE = "from archgrad.relaxations import Softmax\n"

FAMILIES: list[Registry[object]] = [
    ag.relaxations.RELAXATIONS,
    ag.hypergradients.HYPERGRADIENTS,
    ag.arch_optimizers.ARCH_OPTIMIZERS,
    ag.regularizers.REGULARIZERS,
    ag.discretizers.DISCRETIZERS,
    ag.tasks.TASKS,
]  # type: ignore[list-item]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_a_name_comes_back_from_what_it_creates(family: Registry[object]) -> None:
    assert len(family) > 1
    for name in family:
        assert family.name_of(family.create(name)) == name


def test_an_unknown_name_is_a_sentence_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown relaxation 'softmx'; did you mean 'softmax'"):
        RELAXATIONS.create("softmx")


def test_a_class_of_the_users_own_goes_by_its_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_sharp.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    member = RELAXATIONS.create("own_sharp:Sharp", power=3.0)
    assert RELAXATIONS.name_of(member) == "own_sharp:Sharp"
    assert member == sys.modules["own_sharp"].Sharp(power=3.0)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no_such_module:Name", "no_such_module:Name cannot be imported"),
        ("archgrad.relaxations:Nothing", "cannot be imported"),
        ("archgrad.relaxations:", "cannot be imported"),
        (":Softmax", "cannot be imported"),
        ("json:dumps", "json:dumps is no relaxation"),
        ("archgrad.arch_optimizers:Adam", "is no relaxation: it must be a subclass of archgrad.relaxations:Relaxation"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_sentence(path: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        RELAXATIONS.create(path)


def test_the_path_of_a_class_is_where_its_package_exports_it() -> None:
    assert import_path(Softmax) == "archgrad.relaxations:Softmax"


def test_a_class_inside_a_function_has_no_path() -> None:
    class Local(Softmax):
        pass

    with pytest.raises(UserError, match="move it to the top of a module"):
        import_path(Local)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("x = 1", "has no attribute 'Part'"),
        ("raise RuntimeError('\\x1b[31m' + 'a' * 10**6)", "RuntimeError"),
        (f"{BASE}class Part(Softmax):\n  def __init__(self, x): pass", "cannot be made"),
        (f"{BASE}class Part(Softmax):\n  def __init__(self): raise KeyError('a')", r"made \(KeyError: 'a'\)"),
    ],
)
def test_a_module_that_fails_is_a_sentence(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "failing", raising=False)
    with pytest.raises(UserError, match=reason) as caught:
        RELAXATIONS.create("failing:Part")
    assert "failing:Part" in str(caught.value)
    assert len(str(caught.value)) < 500
    sys.modules.pop("failing", None)


def test_a_long_path_is_cut() -> None:
    with pytest.raises(UserError, match="cannot be imported") as caught:
        RELAXATIONS.create("a b " * 100 + ":" + "a b " * 100)
    assert len(str(caught.value)) < 500
