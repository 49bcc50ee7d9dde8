from __future__ import annotations

import pytest
from each_of import each_of


def test_every_case_is_tried_and_the_one_that_fails_is_named() -> None:
    tried: list[tuple[int, str]] = []

    @each_of([(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, letter: str) -> None:
        tried.append((number, letter))
        assert number < 3

    with pytest.raises(AssertionError, match=r"check fails with \(3, 'c'\)"):
        check()
    assert tried == [(1, "a"), (2, "b"), (3, "c")]


def test_no_case_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        each_of(iter(()))(print)()
