from __future__ import annotations

import pytest
import torch
from seeded import randn
from test_krylov import vector

from archgrad.autodiff.vectors import added, cosine, dot, flattened, norm, scaled, unflattened, zeros_like


def test_vectors_add_and_scale_piece_by_piece() -> None:
    x, y = vector(0), vector(10)
    assert torch.equal(flattened(added(x, y)), flattened(x) + flattened(y))
    torch.testing.assert_close(flattened(added(x, y, -0.3)), flattened(x) - 0.3 * flattened(y))
    assert torch.equal(flattened(scaled(x, -2.5)), -2.5 * flattened(x))
    assert not flattened(zeros_like(x)).any()
    for result in (added(x, y, 2.0), scaled(x, 3.0), zeros_like(x)):
        assert {name: value.shape for name, value in result.items()} == {name: v.shape for name, v in x.items()}


def test_lengths_and_angles_are_those_of_the_flat_vector() -> None:
    x, y = vector(0), vector(10)
    flat = flattened(x), flattened(y)
    assert dot(x, y) == pytest.approx(torch.dot(*flat).item(), rel=1e-14)
    assert norm(x) == pytest.approx(flat[0].norm().item(), rel=1e-14)
    assert cosine(x, y) == pytest.approx(torch.cosine_similarity(*flat, dim=0).item(), rel=1e-13)
    assert cosine(x, scaled(x, -3.0)) == pytest.approx(-1.0, rel=1e-15)


def test_the_cosine_with_nothing_is_zero_and_of_two_nothings_one() -> None:
    x = vector(0)
    assert cosine(x, zeros_like(x)) == cosine(zeros_like(x), x) == 0.0
    assert cosine(zeros_like(x), zeros_like(x)) == 1.0


def test_flattening_can_be_undone_in_any_memory_layout() -> None:
    x = {
        "image": randn(2, 3, 4, 4, seed=0).contiguous(memory_format=torch.channels_last),
        "turned": randn(2, 3, seed=1).T,
    }
    assert all(torch.equal(unflattened(flattened(x), x)[name], value) for name, value in x.items())
