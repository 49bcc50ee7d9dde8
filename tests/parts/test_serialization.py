from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
import torch

import archgrad as ag
from archgrad.errors import UserError
from archgrad.parts.serialization import differences, digest, to_data


@dataclass(frozen=True)
class Inner:
    size: int = 1
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    rate: float = 0.5
    extra: dict[str, float] = field(default_factory=dict)


class Stateless:
    pass


class Stateful:
    def __init__(self) -> None:
        self.value = 1


def test_a_part_is_its_class_and_its_fields() -> None:
    assert to_data(Outer(Inner(2, ("a", "b")))) == {
        "part": f"{__name__}:Outer",
        "inner": {"part": f"{__name__}:Inner", "size": 2, "names": ["a", "b"]},
        "rate": 0.5,
        "extra": {},
    }


def test_sparse_data_leaves_defaults_out() -> None:
    assert to_data(Outer(rate=2.0), sparse=True) == {"part": f"{__name__}:Outer", "rate": 2.0}


@pytest.mark.parametrize("name", ["darts", "gaea", "lambda-darts", "p-darts", "r-darts-es", "idarts", "drnas"])
def test_every_method_is_plain_data_that_json_can_hold(name: str) -> None:
    data = to_data(ag.recipes.named(name))
    assert json.loads(json.dumps(data)) == data


def test_what_is_no_dataclass_is_written_by_its_attributes() -> None:
    assert to_data(Stateless()) == {"part": f"{__name__}:Stateless"}
    assert to_data(Stateful()) == {"part": f"{__name__}:Stateful", "value": 1}
    with pytest.raises(UserError, match="object cannot be written to a run directory"):
        to_data(object())


def test_tensors_are_told_apart_by_their_numbers() -> None:
    one, other = to_data(torch.zeros(2)), to_data(torch.ones(2))
    assert one["tensor"] == other["tensor"] == [2]
    assert one["digest"] != other["digest"]


def compared(saved: object, wanted: object) -> list[str]:
    return [path for path, *_ in differences(to_data(saved), to_data(wanted), to_data(wanted, sparse=True))]


def test_differences_name_their_path() -> None:
    method = ag.recipes.darts()
    assert compared(method, method) == []
    other = replace(method, arch_optimizer=ag.arch_optimizers.Adam(lr=1.0))
    assert compared(method, other) == ["arch_optimizer.lr"]
    assert compared(Outer(Inner(names=("a",))), Outer(Inner(names=("b",)))) == ["inner.names[0]"]
    assert compared(Outer(), Inner())[0] == "part"


def test_a_new_field_at_its_default_is_no_difference() -> None:
    saved = to_data(Outer(Inner(3)))
    del saved["rate"]
    del saved["inner"]["names"]
    wanted = Outer(Inner(3))
    assert list(differences(saved, to_data(wanted), to_data(wanted, sparse=True))) == []
    wanted = Outer(Inner(3, ("new",)), rate=1.0)
    found = [path for path, *_ in differences(saved, to_data(wanted), to_data(wanted, sparse=True))]
    assert found == ["inner.names", "rate"]


def test_a_field_that_is_gone_is_a_difference() -> None:
    saved = {**to_data(Inner()), "gone": 1}
    assert [path for path, *_ in differences(saved, to_data(Inner()), to_data(Inner(), sparse=True))] == ["gone"]


def test_digests_differ_with_any_field() -> None:
    assert digest(to_data(Inner(1))) != digest(to_data(Inner(2)))
    assert digest(to_data(Inner(1))) == digest(to_data(Inner(1)))
