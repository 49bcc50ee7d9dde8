"""One suite that every relaxation passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.relaxations import (
    RELAXATIONS,
    Concrete,
    Dirichlet,
    GumbelHard,
    LogProbability,
    ReinMax,
    Relaxation,
    Relaxed,
    Sampled,
    Sigmoid,
    Simplex,
    Softmax,
    Uniform,
    expand_to_cells,
)
from archgrad.spaces import SPACES, DecisionBlock, Row
from archgrad.supernet import SupernetOptions

MEMBERS: dict[str, Relaxation] = {
    "softmax": Softmax(),
    "softmax-wide": Softmax(init_scale=2.0),
    "sigmoid": Sigmoid(),
    "simplex": Simplex(),
    "simplex-skipping": Simplex(skip_zero=True),
    "gumbel-hard": GumbelHard(),
    "gumbel-hard-simplex": GumbelHard(domain="simplex"),
    "gumbel-hard-per-cell": GumbelHard(per_cell=True),
    "reinmax": ReinMax(),
    "reinmax-simplex": ReinMax(domain="simplex", tau=(2.0, 1.0), per_cell=True),
    "log-probability": LogProbability(),
    "concrete": Concrete(),
    "concrete-simplex": Concrete(domain="simplex"),
    "concrete-per-cell": Concrete(per_cell=True),
    "dirichlet": Dirichlet(),
    "dirichlet-per-cell": Dirichlet(per_cell=True),
    "uniform": Uniform(),
    "uniform-per-cell": Uniform(per_cell=True),
}
every_member = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
LEARNING = {name: member for name, member in MEMBERS.items() if member.learns}
every_learning = pytest.mark.parametrize("member", LEARNING.values(), ids=LEARNING)
SAMPLED = {name: member for name, member in MEMBERS.items() if isinstance(member, Sampled)}
every_sampled = pytest.mark.parametrize("member", SAMPLED.values(), ids=SAMPLED)
STEADY = {name: member for name, member in MEMBERS.items() if name not in SAMPLED}
every_steady = pytest.mark.parametrize("member", STEADY.values(), ids=STEADY)
# At fixed noise, the others' mixtures are not smooth: one is one-hot, the other has the gradient of its distribution.
SMOOTH = {
    name: member
    for name, member in LEARNING.items()
    if not isinstance(member, GumbelHard | LogProbability | ReinMax | Dirichlet)
}

# Rows of unequal length, so that some choices are absent.
NORMAL = DecisionBlock("normal", 3, (Row(1, 0, ("a", "b", "c")), Row(2, 0, ("a", "b")), Row(2, 1, ("a",))))
REDUCE = DecisionBlock("reduce", 1, (Row(1, 0, ("a", "b")), Row(2, 1, ("b", "a"))))
BLOCKS = (NORMAL, REDUCE, NORMAL.edges)
Alpha = dict[str, Tensor]


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def alpha_of(member: Relaxation, seed: int = 0, blocks: Sequence[DecisionBlock] = BLOCKS) -> Alpha:
    """Return a point of the member's domain, away from the start."""
    alpha = {}
    for block in blocks:
        values = torch.randn(block.shape, generator=stream(seed), dtype=torch.float64)
        if member.domain == "simplex":
            values = values.masked_fill(~block.mask, -torch.inf).softmax(-1)
        alpha[block.name] = values * block.mask
    return alpha


def assert_weights(member: Relaxation, rows: Tensor, mask: Tensor) -> None:
    """Each weight is from 0 to 1, and those of a row sum to one if the member says so."""
    if member.on_simplex:
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
    assert (rows <= 1 + 1e-6).all()
    assert (rows >= 0).all()
    assert not rows[..., ~mask].any()


@every_member
def test_the_start_is_a_function_of_the_stream(member: Relaxation) -> None:
    first, same, other = (member.init(BLOCKS, stream(seed)) for seed in (0, 0, 1))
    assert list(first) == [block.name for block in BLOCKS]
    for block in BLOCKS:
        value = first[block.name]
        assert value.shape == block.shape
        assert value.dtype == torch.float32
        assert not value.requires_grad
        assert not value[~block.mask].any()
        assert torch.equal(value, same[block.name])
        assert torch.equal(value, other[block.name]) == (member.domain == "simplex" or not member.learns)


@every_member
def test_rows_are_on_the_simplex_and_absent_choices_are_zero(member: Relaxation) -> None:
    for alpha in (member.init(BLOCKS, stream()), alpha_of(member)):
        for block in BLOCKS:
            assert_weights(member, member.probabilities(BLOCKS, alpha)[block.name], block.mask)


@every_member
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_mixtures_are_on_the_simplex_too(member: Relaxation, seed: int, progress: float) -> None:
    for alpha in (member.init(BLOCKS, stream(seed)), alpha_of(member, seed)):
        relaxed = member.relax(BLOCKS, alpha, member.noise(BLOCKS, stream(seed)), progress)
        assert list(relaxed.mixture) == [block.name for block in BLOCKS]
        for block in BLOCKS:
            mixture = relaxed.mixture[block.name]
            assert mixture.shape == (block.cells, *block.shape)
            assert mixture.dtype == alpha[block.name].dtype
            assert_weights(member, mixture, block.mask)


@every_member
def test_what_is_not_computed_has_no_weight(member: Relaxation) -> None:
    relaxed = member.relax(BLOCKS, alpha_of(member), member.noise(BLOCKS, stream()), 0.5)
    for name, marks in (relaxed.active or {}).items():
        assert marks.shape == relaxed.mixture[name].shape
        assert marks.dtype == torch.bool
        assert not relaxed.mixture[name][~marks].any()


@every_member
def test_the_start_prefers_nothing(member: Relaxation) -> None:
    if isinstance(member, Softmax) and member.init_scale > 0.1:
        member = dataclasses.replace(member, init_scale=0.0)
    for name, value in member.probabilities(BLOCKS, member.init(BLOCKS, stream())).items():
        mask = next(block.mask for block in BLOCKS if block.name == name)
        even = mask / mask.sum(-1, keepdim=True) if member.on_simplex else mask / 2
        torch.testing.assert_close(value, even, rtol=0, atol=5e-3)


@every_member
def test_the_mixture_is_a_pure_function(member: Relaxation) -> None:
    alpha = alpha_of(member)
    before = {name: value.clone() for name, value in alpha.items()}
    state = torch.get_rng_state()
    noise = member.noise(BLOCKS, stream(4))
    drawn = {name: value.clone() for name, value in (noise or {}).items()}
    first = member.relax(BLOCKS, alpha, noise, 0.5)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(3)
    second = member.relax(BLOCKS, alpha, noise, 0.5)
    assert isinstance(first, Relaxed)
    for block in BLOCKS:
        assert torch.equal(first.mixture[block.name], second.mixture[block.name])
        assert torch.equal(alpha[block.name], before[block.name])
    assert (first.active is None) == (second.active is None)
    assert all(torch.equal(marks, (second.active or {})[name]) for name, marks in (first.active or {}).items())
    assert all(torch.equal(value, drawn[name]) for name, value in (noise or {}).items())


@every_member
def test_the_mixture_does_not_depend_on_whether_it_is_differentiated(member: Relaxation) -> None:
    noise = member.noise(BLOCKS, stream(4))
    watched = member.relax(BLOCKS, {k: v.requires_grad_() for k, v in alpha_of(member).items()}, noise, 0.5).mixture
    plain = member.relax(BLOCKS, alpha_of(member), noise, 0.5).mixture
    for name, value in plain.items():
        assert watched[name].requires_grad == member.learns
        assert not value.requires_grad
        assert torch.equal(watched[name], value)


@every_member
def test_the_same_noise_is_drawn_from_the_same_stream(member: Relaxation) -> None:
    alpha = alpha_of(member)
    first, second = (member.relax(BLOCKS, alpha, member.noise(BLOCKS, stream(7)), 0.1) for _ in range(2))
    assert all(torch.equal(first.mixture[name], second.mixture[name]) for name in first.mixture)


@every_learning
def test_probabilities_agree_with_differences(member: Relaxation) -> None:
    def function(*alpha: Tensor) -> tuple[Tensor, ...]:
        named_alpha = {block.name: value for block, value in zip(BLOCKS, alpha, strict=True)}
        return tuple(member.probabilities(BLOCKS, named_alpha).values())

    inputs = tuple(value.requires_grad_() for value in alpha_of(member).values())
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("member", SMOOTH.values(), ids=SMOOTH)
def test_mixtures_agree_with_differences(member: Relaxation) -> None:
    noise = member.noise(BLOCKS, stream(4))

    def function(*alpha: Tensor) -> tuple[Tensor, ...]:
        named_alpha = {block.name: value for block, value in zip(BLOCKS, alpha, strict=True)}
        return tuple(member.relax(BLOCKS, named_alpha, noise, 0.5).mixture.values())

    inputs = tuple(value.requires_grad_() for value in alpha_of(member).values())
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@every_learning
def test_every_real_choice_of_several_has_a_gradient_and_absent_ones_none(member: Relaxation) -> None:
    alpha = {name: value.requires_grad_() for name, value in alpha_of(member).items()}
    mixture = member.relax(BLOCKS, alpha, member.noise(BLOCKS, stream()), 0.0).mixture
    total = sum((value * torch.randn(value.shape, generator=stream(1))).sum() for value in mixture.values())
    for block, gradient in zip(BLOCKS, torch.autograd.grad(total, list(alpha.values())), strict=True):
        assert gradient.isfinite().all()
        assert not gradient[~block.mask].any()
        several = block.mask & (block.mask.sum(-1, keepdim=True) > 1)
        assert (gradient[several] != 0).all()


@every_learning
def test_mixed_products_reach_alpha(member: Relaxation) -> None:
    """∂/∂α ⟨∂L/∂w, v⟩, as exact products need it, where L = Σ w²·c·p: it is 2·⟨w·v·c, ∂p/∂α⟩."""
    alpha = {name: value.requires_grad_() for name, value in alpha_of(member).items()}
    noise = member.noise(BLOCKS, stream(2))
    weights = {
        block.name: torch.randn(block.cells, *block.shape, generator=stream(3), dtype=torch.float64).requires_grad_()
        for block in BLOCKS
    }
    mixture = member.relax(BLOCKS, alpha, noise, 0.3).mixture
    loss = sum((weights[name].square() * mixture[name]).sum() for name in weights)
    slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
    products = torch.autograd.grad(sum(slope.sum() for slope in slopes), list(alpha.values()))
    again = member.relax(BLOCKS, alpha, noise, 0.3).mixture
    direct = sum((2 * weights[name].detach() * again[name]).sum() for name in weights)
    for found, wanted in zip(products, torch.autograd.grad(direct, list(alpha.values())), strict=True):
        torch.testing.assert_close(found, wanted)


@every_member
@pytest.mark.parametrize("space", ["s1", "nasbench201", "darts"])
def test_published_spaces_with_edge_weights_are_relaxed(member: Relaxation, space: str) -> None:
    blocks = SPACES.constructor(space)().searched_blocks(SupernetOptions(edge_weights=True))
    assert {block.kind for block in blocks} == {"operation", "edge"}
    alpha = alpha_of(member, 1, blocks)
    relaxed = member.relax(blocks, alpha, member.noise(blocks, stream(1)), 0.5)
    probabilities = member.probabilities(blocks, alpha)
    for block in blocks:
        assert_weights(member, relaxed.mixture[block.name], block.mask)
        if block.kind == "edge":
            assert torch.equal(relaxed.mixture[block.name], probabilities[block.name].expand(block.cells, -1, -1))


@every_member
def test_relaxations_are_values(member: Relaxation) -> None:
    assert dataclasses.replace(member) == member  # type: ignore[type-var]
    assert hash(dataclasses.replace(member)) == hash(member)  # type: ignore[type-var]
    assert member.domain in ("real", "simplex")
    assert member.sampled == (member.noise(BLOCKS, stream()) is not None)


@every_sampled
def test_draws_are_for_every_cell_or_shared(member: Sampled) -> None:
    block = dataclasses.replace(NORMAL, cells=20)
    mixture = member.relax([block], alpha_of(member), member.noise([block], stream()), 0.5).mixture["normal"]
    assert len(mixture.unique(dim=0)) > 1 if member.per_cell else len(mixture.unique(dim=0)) == 1


@every_sampled
def test_draws_differ_between_steps_and_blocks(member: Sampled) -> None:
    twins = [dataclasses.replace(NORMAL, name=name, rows=NORMAL.rows * 8) for name in ("one", "two")]
    alpha = {block.name: alpha_of(member)["normal"].repeat(8, 1) for block in twins}
    first, second = (member.relax(twins, alpha, member.noise(twins, stream(seed)), 0.5).mixture for seed in (0, 1))
    assert not torch.equal(first["one"], first["two"])
    assert not torch.equal(first["one"], second["one"])


@every_sampled
def test_noise_is_for_operations_only_and_survives_a_move(member: Sampled) -> None:
    noise = member.noise(BLOCKS, stream())
    assert list(noise) == ["normal", "reduce"]
    moved = {name: value.to("cpu", copy=True) for name, value in noise.items()}
    alpha = alpha_of(member)
    first, second = (member.relax(BLOCKS, alpha, given, 0.5).mixture for given in (noise, moved))
    assert all(torch.equal(first[name], second[name]) for name in first)


@every_sampled
def test_sampling_needs_its_noise(member: Sampled) -> None:
    for noise in (None, {"reduce": member.noise(BLOCKS, stream())["reduce"]}):
        with pytest.raises(UserError, match="samples block 'normal', but no noise was given; draw it by noise"):
            member.relax(BLOCKS, alpha_of(member), noise, 0.5)


@every_sampled
def test_sampling_refuses_parameters_per_image(member: Sampled) -> None:
    alpha = {name: value.expand(5, -1, -1) for name, value in alpha_of(member).items()}
    with pytest.raises(UserError, match=r"\[5, 3, 3\] for block 'normal'.* use a deterministic relaxation: softmax"):
        member.relax(BLOCKS, alpha, member.noise(BLOCKS, stream()), 0.5)


@every_steady
def test_parameters_per_image_give_mixtures_per_image(member: Relaxation) -> None:
    alphas = [alpha_of(member, seed) for seed in range(4)]
    stacked = {block.name: torch.stack([alpha[block.name] for alpha in alphas]) for block in BLOCKS}
    relaxed = member.relax(BLOCKS, stacked, None, 0.5)
    for block in BLOCKS:
        mixture = relaxed.mixture[block.name]
        assert mixture.shape == (block.cells, 4, *block.shape)
        for image, alpha in enumerate(alphas):
            alone = member.relax(BLOCKS, alpha, None, 0.5).mixture[block.name]
            torch.testing.assert_close(mixture[:, image], alone, rtol=0, atol=0)
        if relaxed.active is not None:
            assert relaxed.active[block.name].shape == (block.cells, *block.shape)


@pytest.mark.parametrize("images", [(), (4,)], ids=["shared", "per-image"])
def test_spread_copies_without_memory(images: tuple[int, ...]) -> None:
    rows = {block.name: torch.rand(*images, *block.shape, generator=stream()) for block in BLOCKS}
    mixture = expand_to_cells(BLOCKS, rows)
    for block in BLOCKS:
        assert mixture[block.name].shape == (block.cells, *images, *block.shape)
        assert mixture[block.name].data_ptr() == rows[block.name].data_ptr()


def test_softmax_is_the_softmax_of_what_a_row_has() -> None:
    alpha = {"normal": torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 9.0], [5.0, 9.0, 9.0]])}
    rows = Softmax().probabilities([NORMAL], alpha)["normal"]
    e = torch.e
    expected = [[1 / (1 + e + e * e), e / (1 + e + e * e), e * e / (1 + e + e * e)], [1 / (1 + e), e / (1 + e), 0]]
    torch.testing.assert_close(rows, torch.tensor([*expected, [1.0, 0.0, 0.0]]))


@every_learning
def test_large_parameters_are_no_danger(member: Relaxation) -> None:
    if member.domain == "simplex":
        corner = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
        points = [corner]
    else:
        points = [torch.full((3, 3), size) for size in (1e4, -1e4)]
        points += [torch.tensor([[1e4, -1e4, 0.0]]).expand(3, -1).contiguous()]
    for point in points:
        leaf = (point * NORMAL.mask).requires_grad_()
        for progress in (0.0, 1.0):
            mixture = member.relax([NORMAL], {"normal": leaf}, member.noise([NORMAL], stream()), progress).mixture
            assert mixture["normal"].isfinite().all()
            weighed = (mixture["normal"] * torch.arange(9.0).reshape(3, 3)).sum()
            (gradient,) = torch.autograd.grad(weighed, leaf)
            assert gradient.isfinite().all()


def test_the_simplex_starts_in_its_middle_and_is_its_own_mixture() -> None:
    start = Simplex().init([NORMAL], stream())["normal"]
    torch.testing.assert_close(start, torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    alpha = alpha_of(Simplex())
    relaxed = Simplex().relax(BLOCKS, alpha, None, 0.5)
    assert relaxed.active is None
    assert all(torch.equal(relaxed.mixture[name][0], value) for name, value in alpha.items())


def test_wiped_out_choices_are_skipped_if_asked() -> None:
    alpha = {"normal": torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])}
    relaxed = Simplex(skip_zero=True).relax([NORMAL], alpha, None, 0.5)
    assert relaxed.active is not None
    assert torch.equal(relaxed.active["normal"], (alpha["normal"] > 0).expand(3, -1, -1))
    by_image = {"normal": torch.stack([alpha["normal"], alpha["normal"].flip(-1)])}
    marks = Simplex(skip_zero=True).relax([NORMAL], by_image, None, 0.5).active
    assert marks is not None
    assert torch.equal(marks["normal"], (by_image["normal"] * NORMAL.mask > 0).any(0).expand(3, -1, -1))


def test_uniform_draws_are_uniform() -> None:
    noise = torch.cat([Uniform(per_cell=True).noise([NORMAL], stream(seed))["normal"] for seed in range(2000)])
    many = replace(NORMAL, cells=6000)
    drawn = Uniform(per_cell=True).relax([many], {"normal": torch.zeros(3, 3)}, {"normal": noise}, 0.5)
    assert drawn.active is not None
    assert torch.equal(drawn.active["normal"], drawn.mixture["normal"] == 1)
    expected = Simplex().init([NORMAL], stream())["normal"]
    bound = 4 * (expected * (1 - expected) / 6000).sqrt() + 1e-9
    assert ((drawn.mixture["normal"].mean(0) - expected).abs() < bound).all()


@pytest.mark.parametrize("name", RELAXATIONS)
def test_relaxations_have_names(name: str) -> None:
    assert RELAXATIONS.create(name) in MEMBERS.values()
