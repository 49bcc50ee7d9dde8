"""Values and derivatives on shards are those of one process, at every order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from derivatives import derivatives, hypergradients, node_derivatives, statistics

from archgrad.distributed.forward import forward_on_shards
from archgrad.distributed.shard import Shard
from archgrad.errors import UserError


def test_derivatives_are_those_of_one_process(ranks: list[dict[str, Any]]) -> None:
    alone = derivatives()
    assert sum("third" in name for name in alone) == 6
    for rank in ranks:
        assert rank["derivatives"].keys() == alone.keys()
        for name, value in alone.items():
            if value is None:
                assert rank["derivatives"][name] is None, name
            else:
                torch.testing.assert_close(rank["derivatives"][name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("by_image", [False, True])
def test_the_batch_norms_of_a_node_share_their_collectives(ranks: list[dict[str, Any]], by_image: bool) -> None:
    alone, _ = node_derivatives(by_image)
    for rank in ranks:
        found, collectives = rank[f"node {by_image}"]
        assert collectives == 3  # 8 norms: all that come first, the second ones of separable convolutions, the rows
        assert found.keys() == alone.keys()
        for name, value in alone.items():
            torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-9)


def test_hypergradients_are_those_of_one_process(ranks: list[dict[str, Any]]) -> None:
    alone = hypergradients()
    for rank in ranks:
        assert rank["hypergradients"].keys() == alone.keys()
        for name, value in alone.items():
            error = (rank["hypergradients"][name] - value).norm() / value.norm()
            assert error < (1e-12 if "exact" in name else 1e-9), name  # a difference divides the rounding by its step


def test_local_statistics_are_those_of_each_share(ranks: list[dict[str, Any]]) -> None:
    alone = derivatives(local=len(ranks))
    assert not torch.allclose(alone["outputs"], derivatives()["outputs"])  # type: ignore[arg-type]
    for rank in ranks:
        for name, value in alone.items():
            if value is None:
                assert rank["local derivatives"][name] is None, name
            else:
                torch.testing.assert_close(rank["local derivatives"][name], value, rtol=1e-9, atol=1e-9)


def test_batch_norms_of_users_have_joint_statistics(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        for name, value in statistics().items():
            close = {"rtol": 0.02, "atol": 0.02} if value.dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
            torch.testing.assert_close(rank["statistics"][name], value, **close)


@pytest.mark.parametrize(("rows", "size"), [(7, 3), (3, 3), (64, 5)])
def test_rows_are_divided_as_pytorch_does(rows: int, size: int) -> None:
    parts = torch.arange(rows).tensor_split(size)
    assert [Shard.of(rows, rank, size).own(torch.arange(rows)).tolist() for rank in range(size)] == [
        part.tolist() for part in parts
    ]


def test_images_of_another_share_are_rejected() -> None:
    with pytest.raises(UserError, match="process 0 of 1 has 2 of 5 images, but its share is 5"):
        forward_on_shards(lambda *given: None, {}, torch.zeros(2, 1), {}, 5, False)
