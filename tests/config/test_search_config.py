"""One description of a run: names and objects, the run directory, resume, and parts of a user's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import same_bits

import archgrad as ag
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.resolve import resolve
from archgrad.errors import UserError
from archgrad.relaxations import Softmax

TINY: dict[str, Any] = {"epochs": 2, "batch_size": 20}
SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)


@dataclass(frozen=True)
class Sharp(Softmax):
    """p = softmax(α / τ)."""

    tau: float = 0.5

    def probabilities(self, blocks: Any, alpha: Any) -> Any:
        return super().probabilities(blocks, {name: value / self.tau for name, value in alpha.items()})


def test_names_do_where_objects_do() -> None:
    by_name = ag.search("nasbench201", "darts", "digits", channels=2, cells=1, limit=60, **TINY)
    by_object = ag.search(SPACE, ag.recipes.darts(), ag.data.digits(limit=60), **TINY)
    assert by_name.genotype == by_object.genotype
    assert all(torch.equal(by_name.alpha[name], by_object.alpha[name]) for name in by_name.alpha)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((3,), {}), "space is 3; it must be a name .* or an object of archgrad.spaces:SearchSpace"),
        (((SPACE, SPACE), {}), "method is NASBench201"),
        (((SPACE, "darts", [1, 2]), {}), r"item 0 of 'list' is 1 \(int\); a dataset must give pairs"),
        ((("nasbench20",), {}), "unknown space 'nasbench20'; did you mean 'nasbench201'"),
        ((("nasbench201", "gaia"), {}), "unknown method 'gaia'; did you mean 'gaea'"),
        (((), {"epoch": 3}), "unknown option of search: 'epoch'; did you mean 'epochs'"),
        (((), {"needs": ("data",)}), "unknown option of search: 'needs'"),
        (((), {"weights": 3}), "weights is 3; it must be an object of archgrad:WeightTraining"),
    ],
)
def test_a_wrong_type_or_name_is_a_sentence(arguments: tuple[Any, dict[str, Any]], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ag.search(*arguments[0], **arguments[1])


def test_validate_says_everything_that_is_wrong() -> None:
    wrong = SearchConfig(method="darts", split="none", on_collapse="switch", settings={"relaxation.nothing": "1"})
    with pytest.raises(UserError, match="unknown knob"):
        resolve(wrong)
    wrong = SearchConfig(method="random-nas", split="none", on_collapse="stop", task="guessing")
    with pytest.raises(UserError) as caught:
        resolve(wrong)
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 things are wrong with this search:"
    starts = ["  1. unknown task 'guessing'", "  2. on_collapse is 'stop'", "  3. the split is none"]
    assert all(map(str.startswith, lines[1:], starts))


class Killed(ag.callbacks.Callback):
    """Ends a search in its second epoch, as a kill would; a search in stages in that of its last stage."""

    stages_left = 0

    def on_stage_start(self, stage: Any) -> None:
        self.stages_left = stage.stages - stage.number

    def on_step_end(self, search: Any, means: Any) -> None:
        if search.epoch == 1 and not self.stages_left:
            raise KeyboardInterrupt


METHODS = {
    "recipe": ag.recipes.gaea(),
    "combination": ag.recipes.lambda_darts(base=ag.recipes.gaea(level="bilevel")),
    "own part": replace(ag.recipes.darts(), relaxation=Sharp(tau=0.3), name="sharp"),
}


@pytest.mark.parametrize("name", METHODS)
def test_what_the_library_leaves_can_be_resumed_by_name(name: str, tmp_path: Path) -> None:
    data, whole = ag.data.digits(limit=60), tmp_path / "whole"
    expected = ag.search(SPACE, METHODS[name], data, **TINY, out=whole)
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, METHODS[name], data, **TINY, out=tmp_path / "run", callbacks=[Killed()])
    assert read_run_config(tmp_path / "run").needs == ()
    assert same_bits(ag.resume(tmp_path / "run"), expected)


def test_the_command_takes_what_the_library_leaves(tmp_path: Path, archgrad: Any) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, METHODS["own part"], ag.data.digits(limit=60), **TINY, out=out, callbacks=[Killed()])
    for command in (["resume", out], ["inspect", out], ["draw", out], ["plot", out, "-o", tmp_path / "curve.svg"]):
        archgrad.run(*command)


def local_part() -> Softmax:
    @dataclass(frozen=True)
    class Local(Softmax):
        tau: float = 1.0

    return Local()


def test_what_cannot_be_named_is_handed_over_and_checked(tmp_path: Path, archgrad: Any) -> None:
    method, data = (
        replace(ag.recipes.darts(), relaxation=local_part()),
        ag.data.digits(limit=60).select(torch.arange(50)),
    )
    expected = ag.search(SPACE, method, data, **TINY, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, method, data, **TINY, out=tmp_path / "run", callbacks=[Killed()])
    assert read_run_config(tmp_path / "run").needs == ("data", "method")
    with pytest.raises(UserError, match=r"archgrad\.resume\(DIR, data=…, method=…\)"):
        ag.resume(tmp_path / "run")
    assert "cannot be named in a file" in archgrad.error("resume", tmp_path / "run")
    with pytest.raises(UserError, match=r"belongs to another search: its method\.relaxation"):
        ag.resume(tmp_path / "run", data=data, method=ag.recipes.darts())
    with pytest.raises(UserError, match=r"belongs to another search: its data\.digest"):
        ag.resume(tmp_path / "run", data=ag.data.digits(limit=50), method=method)
    assert same_bits(ag.resume(tmp_path / "run", data=data, method=method), expected)


def test_two_parts_of_ones_own_with_other_settings_are_not_the_same(tmp_path: Path) -> None:
    methods = [replace(METHODS["own part"], relaxation=Sharp(tau=tau)) for tau in (0.3, 0.4)]
    data = ag.data.digits(limit=60)
    ag.search(SPACE, methods[0], data, **TINY, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"its method.relaxation.tau is 0.3, this one's is 0.4"):
        ag.resume(tmp_path / "run", method=methods[1])


@pytest.mark.parametrize("plan", [None, ag.Progressive(cells=(None, None), keep=(5, 3), skip_dropout=(0.0, 0.0))])
def test_a_resumed_run_keeps_the_factor_it_began_with(
    plan: ag.Progressive | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, method = ag.data.digits(limit=60), replace(ag.recipes.darts(), progressive=plan)
    expected = ag.search(SPACE, method, data, **TINY, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, method, data, **TINY, out=tmp_path / "run", callbacks=[Killed()])
    monkeypatch.setattr("archgrad.method.alpha_budget.LARGEST_FACTOR", 7.0)  # as another version may have it
    assert same_bits(ag.resume(tmp_path / "run", method=method), expected)
