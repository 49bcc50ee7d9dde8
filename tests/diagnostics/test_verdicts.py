"""Records whose verdict is known, and what the sentences about them say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archgrad import recipes
from archgrad.diagnostics import Thresholds, diagnose
from archgrad.diagnostics.diagnosis import first_moved_epoch, last_usable_epoch
from archgrad.diagnostics.records import skip_share
from archgrad.errors import UserError
from archgrad.method.bundle import Method
from archgrad.method.reactions import cures_of

EPOCHS = 25
SKIPS = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|nor_conv_3x3~2|"
NONES = "|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|nor_conv_3x3~2|"


def records(shares: list[float], **numbers: list[Any] | float | str) -> list[dict[str, Any]]:
    """One record for each share; other numbers are the same in all, or given one by one (None: not measured)."""
    found = []
    for place, share in enumerate(shares):
        record = {"epoch": place + 1, "skip_share": share, "movement": 0.1 * (place + 1)}
        for name, value in numbers.items():
            one = value[place] if isinstance(value, list) else value
            if one is not None:
                record[name] = one
        found.append(record)
    return found


NOTHING = [0.0] * 4
RISING = [0.0, 1 / 6, 1 / 6, 2 / 6, 3 / 6, 3 / 6, 3 / 6]


@pytest.mark.parametrize(
    ("history", "verdict", "since"),
    [
        ([], "too early", None),
        (records([0.9, 0.9]), "too early", None),
        (records([0.2] * 5, alignment=0.5), "healthy", None),
        (records([0.2] * 5), "healthy", None),
        (records([0.2] * 5, alignment=0.03), "healthy", None),  # sound searches have that too
        (records([0.5] * 5, alignment=0.5), "healthy", None),
        (records([0.5] * 5, alignment=0.03), "healthy", None),  # many, but never fewer
        (records(RISING, alignment=0.03), "collapsing", 7),
        (records(RISING), "collapsing", 7),  # nothing measured that could excuse it
        (records(RISING, alignment=0.4), "healthy", None),
        (records([*RISING, 0.0, 0.0], alignment=0.03), "healthy", None),  # recovers
        (records([*RISING, 5 / 6, 5 / 6, 5 / 6], alignment=0.03), "collapsing", 7),
        (records([*RISING, 5 / 6, 5 / 6, 5 / 6], alignment=0.4), "collapsing", 10),
        (records([0.0] * 4, genotype=NONES), "collapsing", 3),
        (records(NOTHING, genotype=NONES, entropy=[1.609, 1.609, 1.608, 1.607], entropy_max=1.609), "undecided", None),
        (records(NOTHING, genotype=NONES, entropy=[1.609, 1.6, 1.5, 1.4], entropy_max=1.609), "collapsing", 4),
        (
            records(NOTHING, genotype=NONES, entropy=0.3, entropy_max=1.609),
            "collapsing",
            3,
        ),  # decided in the first epoch
        (records([0.9] * 4, entropy=1.38, entropy_max=1.386), "undecided", None),  # an argmax of noise
        (records([0.2] * 4, entropy=1.38, entropy_max=1.386), "undecided", None),
        (records([0.2] * 4, entropy=1.1, entropy_max=1.386, lead=0.01), "undecided", None),  # two rivals
        (records([0.2] * 4, entropy=1.1, entropy_max=1.386, lead=0.3), "healthy", None),
        (records([0.2] * 4, heldout_accuracy=14.0, heldout_chance=10.0), "untrained", None),
        (records([0.2] * 4, heldout_accuracy=20.0, heldout_chance=10.0), "untrained", None),
        (records([0.2] * 4, heldout_accuracy=60.0, heldout_chance=10.0), "healthy", None),
        (records([0.2] * 4, heldout_accuracy=51.0, heldout_chance=50.0), "untrained", None),  # two classes
        (records([0.2] * 4, heldout_accuracy=14.0, heldout_chance=10.0, entropy=1.6), "untrained", None),
        (records([0.2] * 4, heldout_accuracy=60.0, train_accuracy=99.0), "memorising", None),
        (records([0.2] * 4, heldout_accuracy=90.0, train_accuracy=99.0), "healthy", None),
        (records([0.2] * 4, heldout_accuracy=15.0, train_accuracy=99.0, heldout_chance=10.0), "memorising", None),
        (records(RISING, heldout_accuracy=60.0, train_accuracy=99.0), "collapsing", 7),
        (records([0.9] * 5, heldout_accuracy=3.0, heldout_chance=10.0), "untrained", None),  # before its skips count
        (records([0.9] * 5, heldout_accuracy=9.0, heldout_chance=10.0, train_accuracy=36.0), "collapsing", 3),
        (records([0.2] * 4, entropy=1.38, heldout_accuracy=30.0, train_accuracy=99.0), "memorising", None),
        (records([0.2] * 4, heldout_accuracy=0.0, train_accuracy=99.0, heldout_images=2), "healthy", None),  # who knows
        (records([0.2] * 4, train_accuracy=11.0, train_chance=10.0), "untrained", None),
        (records([0.2] * 4, train_accuracy=60.0, arch_accuracy=11.0, train_chance=10.0), "untrained", None),
        (records([0.2] * 4, genotype=[SKIPS, NONES, SKIPS, NONES]), "undecided", None),  # another cell every epoch
        (records([0.2] * 4, genotype=[NONES, SKIPS, SKIPS, SKIPS]), "undecided", None),  # a mean over the window
        (records([0.2] * 4, mixture_accuracy=90.0, discrete_accuracy=21.0, heldout_chance=10.0), "undecided", None),
        (records([0.2] * 4, mixture_accuracy=90.0, discrete_accuracy=70.0, heldout_chance=10.0), "healthy", None),
        (records([0.2] * 12, alpha_eigenvalue=[0.1] * 9 + [0.2] * 3), "healthy", None),
        (records([0.2] * 4, alignment=0.4, alpha_eigenvalue=[0.1, None, 5.0, None]), "healthy", None),
    ],
)
def test_a_verdict_for_each_case(history: list[dict[str, Any]], verdict: str, since: int | None) -> None:
    found = diagnose(history, EPOCHS)
    assert (found.verdict, found.since) == (verdict, since)
    assert found.alarming == (since is not None)
    assert found.sentences
    assert bool(found.advice) == (verdict not in ("healthy", "too early"))


RMSE: dict[str, Any] = {"metric": "rmse", "metric_direction": "lower", "metric_unit": "", "metric_best": 0.0}
OWN: dict[str, Any] = {"metric": "auc", "metric_direction": "higher", "metric_unit": ""}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        (RMSE | {"heldout_rmse": 1.9, "heldout_chance": 2.0}, "untrained"),
        (RMSE | {"heldout_rmse": 0.9, "heldout_chance": 2.0}, "healthy"),
        (RMSE | {"train_rmse": 1.95, "train_chance": 2.0}, "untrained"),
        (RMSE | {"heldout_rmse": 1.5, "train_rmse": 0.1, "heldout_chance": 2.0}, "memorising"),
        (RMSE | {"heldout_rmse": 0.5, "train_rmse": 0.1, "heldout_chance": 2.0}, "healthy"),
        (RMSE | {"heldout_rmse": 1.5, "train_rmse": 0.1}, "healthy"),  # nothing to compare with
        (RMSE | {"mixture_rmse": 0.5, "discrete_rmse": 1.8, "heldout_chance": 2.0}, "undecided"),
        (RMSE | {"mixture_rmse": 0.5, "discrete_rmse": 0.6, "heldout_chance": 2.0}, "healthy"),
        (RMSE | {"mixture_rmse": 1.99, "discrete_rmse": 5.0, "heldout_chance": 2.0}, "healthy"),  # nothing to keep
        (OWN | {"heldout_auc": 0.5, "heldout_chance": 0.5}, "untrained"),
        (OWN | {"heldout_auc": 0.51, "heldout_chance": 0.5}, "healthy"),  # perfect is unknown
        (OWN | {"heldout_auc": 0.5, "train_auc": 0.9}, "healthy"),
        (OWN | {"mixture_auc": 0.9, "discrete_auc": 0.55, "heldout_chance": 0.5}, "undecided"),
    ],
)
def test_other_metrics_are_judged_by_their_direction(numbers: dict[str, Any], verdict: str) -> None:
    found = diagnose(records([0.2] * 4, **numbers), EPOCHS)
    assert found.verdict == verdict
    if f"heldout_{numbers['metric']}" in numbers:
        assert f"held-out {numbers['metric']} is" in str(found)
        assert f"heldout_{numbers['metric']}" in found.evidence


def test_the_oracle_changes_nothing() -> None:
    plain = records(RISING, alignment=0.03)
    told = [record | {"oracle_cifar10_test_200ep": 94.0, "arch_accuracy": 99.0} for record in plain]
    assert diagnose(told, EPOCHS) == diagnose(plain, EPOCHS)


def test_the_sentences_have_the_numbers() -> None:
    history = records(
        RISING,
        alignment=0.034,
        skip_gradient_last=-0.0053,
        conv_gradient_last=0.0028,
        alpha_eigenvalue=[0.1, 0.1, 0.1, 0.1, 0.3, 0.3, 0.3],
    )
    found = diagnose(history, EPOCHS)
    assert found.sentences == (
        "skip connections are 50 % of the architecture, up from 0 % in epoch 1",
        "layer alignment is 0.03: the cells want different architectures",
        "the last cells favor skip connections: their gradient is -0.0053, that of convolutions 0.0028",
        "the largest eigenvalue of the architecture's Hessian has grown 3.0 times",
    )
    assert found.advice.startswith("go back to an earlier epoch, or search again: λ-DARTS")
    assert str(found).splitlines()[0] == "diagnosis: collapsing since epoch 7"
    assert found.evidence["alignment"] == pytest.approx(0.034)
    assert found.evidence["skip_share"] == pytest.approx(0.5)
    assert found.evidence["eigenvalue_growth"] == pytest.approx(3)


def test_what_sounds_else() -> None:
    recovering = diagnose(records([0.0, 0.6, 0.6, 0.6, 0.3, 0.3, 0.3], alignment=0.4), EPOCHS)
    assert "skip connections are 30 % of the architecture, down from 60 % in epoch 4" in recovering.sentences
    assert "layer alignment is 0.40: the cells agree" in recovering.sentences
    gone = diagnose(records([0.0] * 4, genotype=NONES), EPOCHS)
    assert "`none` has 67 % of the architecture" in gone.sentences
    assert "without `none`" in gone.advice
    assert "too few to judge" in diagnose(records([0.1]), EPOCHS).sentences[0]
    assert "moved in 1 epoch," in diagnose(records([0.1]), EPOCHS).sentences[0]


def test_every_diagnosis_says_how_far_it_is_decided_and_how_well_it_has_learned() -> None:
    told = {"train_accuracy": 99.0, "heldout_accuracy": 60.0, "heldout_chance": 10.0}
    found = diagnose(records([0.2] * 4, entropy=0.693, entropy_max=1.386, lead=0.4, **told), EPOCHS)
    assert found.sentences[:2] == (
        "decided 50 %: entropy 0.693 of 1.386, and the first choice leads the second by 0.40",
        "held-out accuracy is 60.0 % (mean of 3 epochs), 99.0 % in training: the weights remember their images",
    )
    assert found.evidence["decided"] == pytest.approx(0.5)
    assert "more images" in found.advice
    hardly = diagnose(records([0.2] * 4, heldout_accuracy=12.0, heldout_chance=10.0), EPOCHS)
    assert (
        "held-out accuracy is 12.0 % (mean of 3 epochs); the most common class alone gives 10.0 %" in hardly.sentences
    )
    assert "--alpha-budget" in diagnose(records([0.2] * 4, entropy=1.38, entropy_max=1.386), EPOCHS).advice


def test_a_finished_search_is_judged_by_the_epochs_it_has() -> None:
    short = records([0.2] * 2, heldout_accuracy=12.0, heldout_chance=10.0)
    assert diagnose(short, 10).verdict == "too early"
    assert diagnose(short, 2).verdict == diagnose(short[:1], 1).verdict == "untrained"


def test_the_sentences_say_why_it_is_undecided() -> None:
    changing = diagnose(records([0.2] * 4, genotype=[SKIPS, NONES, SKIPS, NONES]), EPOCHS)
    assert "83 % of the cell changes from one epoch to the next" in changing.sentences
    assert "a smaller --alpha-budget" in changing.advice
    loss = {"mixture_accuracy": 88.5, "discrete_accuracy": 21.4, "heldout_chance": 10.0}
    lost = diagnose(records([0.2] * 4, derived_by="accuracy", **loss), EPOCHS)
    assert lost.verdict == "undecided"
    assert "this one architecture has 21.4 % accuracy, the mixture 88.5 %: it is not yet the choice" in lost.sentences
    few = diagnose(records([0.2] * 4, heldout_accuracy=0.0, train_accuracy=39.6, heldout_images=2), EPOCHS)
    assert (
        "held-out accuracy is 0.0 % (mean of 3 epochs), 39.6 % in training; 2 held-out images are too few to judge by"
        in few.sentences
    )


def test_epochs_that_tie_do_not_count() -> None:
    tied = [record | {"ties": 6, "genotype": None} for record in records([1.0] * 5)]
    assert diagnose(tied, EPOCHS).verdict == "too early"
    assert diagnose(tied, 5).verdict == diagnose(tied[:1], 1).verdict == "undecided"
    assert "all choices tie exactly" in diagnose(tied, 5).sentences[0]
    assert last_usable_epoch([*records([0.2] * 3), *tied[3:]], EPOCHS) == 3


def test_epochs_before_the_architecture_moved_do_not_count() -> None:
    warm = [dict(record, movement=0.0) for record in records([1.0] * 10)]
    assert diagnose(warm, EPOCHS).verdict == "too early"
    moved = [dict(record, epoch=record["epoch"] + 10) for record in records([0.2, 0.2, 0.2], alignment=0.5)]
    assert diagnose(warm + moved, EPOCHS).verdict == "healthy"


def test_a_long_search_is_not_judged_in_its_first_tenth() -> None:
    history = records(RISING, alignment=0.03)
    assert diagnose(history, 70).verdict == "too early"
    assert diagnose(history, 69).verdict == "collapsing"


def test_numbers_that_are_none_are_not_used() -> None:
    history = records(RISING, alignment=[None, float("nan"), float("inf"), True, "x", None, None])
    assert diagnose(history, EPOCHS) == diagnose(records(RISING), EPOCHS)


def test_where_skip_connections_were_not_measured_the_genotype_tells() -> None:
    assert skip_share({"epoch": 1, "genotype": SKIPS}) == pytest.approx(5 / 6)
    assert skip_share({"epoch": 1, "genotype": SKIPS, "skip_share": 0.25}) == 0.25
    assert skip_share({"epoch": 1}) == 0
    history = [{"epoch": n, "genotype": SKIPS, "entropy": 1.3 - n / 100, "entropy_max": 1.3} for n in range(1, 5)]
    assert diagnose(history, EPOCHS).verdict == "undecided"
    history = [{"epoch": n, "genotype": SKIPS, "entropy": 1.3 - n / 10, "entropy_max": 1.3} for n in range(1, 5)]
    assert diagnose(history, EPOCHS).verdict == "collapsing"


def test_where_to_go_back_to() -> None:
    history = records([*RISING, 5 / 6, 5 / 6, 5 / 6], alignment=0.03)
    assert last_usable_epoch(history, EPOCHS) == 6  # the mean of the window is 4/9 there, and 1/2 afterwards
    assert last_usable_epoch(records([0.9] * 5), EPOCHS) == 0
    assert last_usable_epoch([], EPOCHS) == 0
    assert diagnose(history[:6], EPOCHS).usable
    assert not diagnose(history[:7], EPOCHS).usable


def test_thresholds_can_be_others_and_are_checked() -> None:
    history = records(RISING, alignment=0.03)
    assert diagnose(history, EPOCHS, Thresholds(misaligned=0.01)).verdict == "healthy"
    assert diagnose(history, EPOCHS, Thresholds(many=0.51)).verdict == "healthy"
    for wrong in ({"window": 0}, {"many": 0}, {"early": -0.1}, {"growth": float("nan")}):
        with pytest.raises(UserError, match=f"{next(iter(wrong))} of Thresholds is"):
            Thresholds(**wrong)
    with pytest.raises(UserError, match="epochs is 0"):
        diagnose(history, 0)


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        (recipes.darts(), "λ-DARTS (--regularizer +layer-alignment) or GAEA (--method gaea) usually cures it"),
        (recipes.gaea(), "λ-DARTS (--regularizer +layer-alignment) usually cures it"),
        (recipes.lambda_darts(), "GAEA (--method gaea) usually cures it"),
        (recipes.lambda_darts(base=recipes.gaea()), "the method has what usually cures it; fewer epochs (--epochs)"),
    ],
)
def test_the_advice_is_what_the_method_does_not_have(method: Method, advice: str) -> None:
    for shares in (RISING, [0.9] * 5):
        found = diagnose(records(shares, alignment=0.03), EPOCHS, cures=cures_of(method))
        assert found.advice.startswith(f"go back to an earlier epoch, or search again: {advice}")
        assert replace(found, advice="") == replace(diagnose(records(shares, alignment=0.03), EPOCHS), advice="")


def test_what_accuracies_choose_is_not_judged_by_entropy() -> None:
    even = {"entropy": 1.38, "entropy_max": 1.386, "lead": 0.0, "heldout_accuracy": 80.0, "heldout_chance": 10.0}
    assert diagnose(records([0.2] * 4, **even), 4).verdict == "undecided"
    assert diagnose(records([0.2] * 4, derived_by="accuracy", **even), 4).verdict == "healthy"
    still = [record | {"movement": 0.0, "genotype": SKIPS} for record in records([0.2] * 4, **even)]
    assert diagnose(still, 8).verdict == "too early"  # it may be a warm-up
    found = diagnose(still, 4)
    assert (found.verdict, found.sentences[0].startswith("the architecture parameters have not moved")) == (
        "healthy",
        True,
    )
    assert diagnose([record | {"heldout_accuracy": 12.0} for record in still], 4).verdict == "untrained"


def test_advice_and_words_fit_what_was_measured() -> None:
    told = {"train_accuracy": 99.0, "heldout_accuracy": 50.0}
    assert "gaea-bilevel" in diagnose(records([0.2] * 4, level="single", **told), EPOCHS).advice
    assert "gaea-bilevel" not in diagnose(records([0.2] * 4, level="bilevel", **told), EPOCHS).advice
    assert "held-out accuracy was not measured" in diagnose(records([0.2] * 4, train_accuracy=10.0), 9).sentences[0]


def test_the_first_epoch_that_moved_the_architecture() -> None:
    warm = [dict(record, movement=0.0) for record in records([1.0] * 3)]
    assert first_moved_epoch([]) == 0
    assert first_moved_epoch(warm) == 0
    assert first_moved_epoch([*warm, {"epoch": 4, "movement": 0.1}, {"epoch": 5, "movement": 0.0}]) == 4
