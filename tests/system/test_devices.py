from __future__ import annotations

import pytest
import torch

from archgrad.errors import UserError
from archgrad.system.devices import reads_are_free, usable_device, wide_type


@pytest.mark.parametrize(("cuda", "mps", "chosen"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_takes_the_best_there_is(cuda: bool, mps: bool, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert usable_device("auto") == torch.device(chosen)


def test_a_device_that_is_not_there_is_a_sentence() -> None:
    for name in ("foo", "meta", "cuda:99"):
        with pytest.raises(UserError, match=f"the device '{name}' cannot be used .*; try 'auto' or 'cpu'"):
            usable_device(name)


def test_only_a_cpu_is_read_for_nothing() -> None:
    assert reads_are_free(torch.device("cpu"))
    assert not any(reads_are_free(torch.device(name)) for name in ("cuda", "mps", "meta"))


def test_mps_has_no_float64() -> None:
    assert [wide_type(torch.device(name)) for name in ("cpu", "cuda", "mps")] == [torch.float64] * 2 + [torch.float32]
