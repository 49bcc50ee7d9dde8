"""Pickled dictionaries are read, and whatever tries to run code is refused."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from archgrad.errors import UserError
from archgrad.system.restricted_pickle import read_pickle

VALUE = {
    "texts": ["a", "ä" * 300, "", "a"],
    "numbers": [0, 255, 256, 65536, -1, -300, 2**40, -(2**70), 1.5],
    "nested": {("a", 1): ((), (1,), (1, 2, 3, 4)), 5: {}},
    "none": [None, True, False],
    "many": list(range(3000)),
}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_comes_back(protocol: int) -> None:
    assert read_pickle(pickle.dumps(VALUE, protocol), "file") == VALUE


def test_python_2_pickles() -> None:
    """The official files have byte strings where Python 3 would write text."""
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
        b"U\x01b\x87Rq\x05(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff"
        b"\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06abcdeftbU\x06labelsq\x08]q\x09(K\x06K\x09eu."
    )
    values = read_pickle(content, "the file")
    assert values["data"].tolist() == [[97, 98, 99], [100, 101, 102]]
    assert values["labels"] == [6, 9]


@pytest.mark.parametrize(("dtype", "order"), [("u1", "C"), ("<i4", "F"), (">f4", "C"), ("<f8", "F")])
@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_survive(dtype: str, order: Any, protocol: int) -> None:
    array = np.asarray(np.arange(12).reshape(3, 4), dtype=dtype, order=order)
    found = read_pickle(pickle.dumps({"a": array}, protocol), "the file")["a"]
    assert np.array_equal(found, array)
    assert found.dtype == array.dtype


class Calls:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_code_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "created"
    with pytest.raises(UserError, match=r"the file was refused: it asks to run (posix|nt)\.mkdir"):
        read_pickle(pickle.dumps({"data": Calls(os.mkdir, str(target))}, protocol), "the file")
    assert not target.exists()


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    "value", [Calls(eval, "1"), Calls(getattr, "a", "b"), OrderedDict(a=1), np.float64(1), print, ValueError("x")]
)
def test_other_names_are_refused(value: object, protocol: int) -> None:
    with pytest.raises(UserError, match="it asks to run"):
        read_pickle(pickle.dumps({"a": value}, protocol), "file")


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\nload\n(U\x01xtR.",
        b"cnumpy.core.multiarray\n_reconstruct.__globals__\n.",
        b"\x80\x04\x8c\x07_codecs\x8c\x06decode\x93.",
        b"(U\x01xinumpy\nload\n.",  # INST names a class in another way
    ],
)
def test_hand_made_names_are_refused(content: bytes) -> None:
    with pytest.raises(UserError, match="it asks to run"):
        read_pickle(content, "the file")


DTYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"


def array_pickle(state: bytes) -> bytes:
    return b"\x80\x02}U\x01acnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R" + state + b"s."


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04" + bytes(100),
        b"](K\x01K\x02e.",  # a list and not a dictionary
        b"cnumpy\ndtype\n}U\x01xNsb.",  # would change what an allowed name stands for
        b"cnumpy\ndtype\nN}U\x04typeNs\x86b.",
        b"cnumpy\nndarray\n)R.",
        b"cnumpy\nndarray\n)\x81.",
        b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR.",  # objects would be addresses in memory
        b"cnumpy\ndtype\n(U\x02V8K\x00K\x01tR.",
        b"\x82\x01.",
        b"NQ.",
        b"X\xff\xff\xff\xff",
        array_pickle(b"(K\x01K\x02\x85N\x89U\x02abtb"),
        array_pickle(b"(K\x01U\x01x\x85" + DTYPE + b"\x89U\x02abtb"),
        array_pickle(b"(K\x01K\x03\x85" + DTYPE + b"\x89U\x02abtb"),
    ],
)
def test_damaged_and_hostile_streams_are_answered_with_a_sentence(content: bytes) -> None:
    with pytest.raises(UserError, match=r"the file is truncated or damaged \(.+\); get the file again") as caught:
        read_pickle(content, "the file")
    assert len(str(caught.value)) < 300


def test_random_damage_never_ends_in_another_error() -> None:
    rng = Random(0)  # noqa: S311 - cases to try, not secrets
    good = pickle.dumps({b"data": np.zeros((2, 3), np.uint8), b"labels": list(range(100))}, 2)
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        with pytest.raises(UserError):
            read_pickle(bytes(bad[: rng.randrange(len(bad))]), "the file")
