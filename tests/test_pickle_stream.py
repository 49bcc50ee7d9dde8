"""A stream of pickles gives the plain data in it, and a sentence for all else; it never runs anything."""

from __future__ import annotations

import io
import os
import pickle
import random
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest

from archgrad import pickle_stream
from archgrad.errors import UserError
from archgrad.pickle_stream import PickleStream

WANTED = frozenset({"kept"})
VALUE = {
    "texts": ["a", "ä" * 300, "", "a"],
    "numbers": [0, 255, 256, 65536, -1, -300, 2**40, -(2**70)],
    "nested": {("a", 1): ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 5: {}},
    "none": [None, True, False],
    "set": {1, 2, 3},
    "ordered": OrderedDict(a=1),
    "counted": Counter("aab"),
    "default": defaultdict(list, a=[1]),
    "many": list(range(3000)),
    "kept": 1.5,
}


def read(content: bytes, most: int = 1 << 30) -> Any:
    return PickleStream(io.BytesIO(content), "the file", WANTED, most).load()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("chunk", [1 << 22, 1])
def test_plain_data_come_back(protocol: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_stream, "_CHUNK", chunk)
    found = read(pickle.dumps(VALUE, protocol))
    assert found == VALUE
    assert type(found["ordered"]) is type(found["counted"]) is type(found["default"]) is dict


@pytest.mark.parametrize("protocol", [2, 4])
def test_floats_are_kept_under_wanted_keys_only(protocol: int) -> None:
    value = {"kept": np.float64(2.5), "other": 1.0, 3: 1.0, "list": [1.0, 2, 3.0], "whole": np.int32(7)}
    assert read(pickle.dumps(value, protocol)) == {"kept": 2.5, "list": [2], "whole": 7}


def test_an_object_that_appears_twice_is_one_object() -> None:
    shared = {"a": 1}
    found = read(pickle.dumps([[shared, str(n)] * 2 for n in range(500)], 2))
    assert found[0][0] is found[499][2]
    assert [one[1] for one in found] == [str(n) for n in range(500)]


def test_pickles_in_a_row_are_read_one_after_another() -> None:
    stream = PickleStream(io.BytesIO(b"".join(pickle.dumps(n) for n in range(3))), "the file", WANTED, 1000)
    assert [stream.load() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError, match="it ends too early"):
        stream.load()


class Calls:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


class Own:
    pass


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (Calls(os.system, "echo"), r"asks to run (posix|nt)\.system"),
        (Calls(eval, "1"), r"asks to run (builtins|__builtin__)\.eval"),
        (Calls(getattr, "a", "b"), r"asks to run (builtins|__builtin__)\.getattr"),
        (Calls(list, "ab"), "it does what no array of numbers does"),
        (Calls(OrderedDict, [("a", 1)]), "it does what no array of numbers does"),
        (Own(), "asks to run"),
        (np.ones(3), "asks to run"),
        ({(("a",),): 1}, "it has a tuple as a key"),
        ({None: 1}, "it has a NoneType as a key"),
    ],
)
def test_what_is_not_plain_data_is_refused(value: object, problem: str, protocol: int) -> None:
    with pytest.raises(UserError, match=problem):
        read(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it ends too early"),
        (b"\x80\x02", "it ends too early"),
        (b"hello", "memo|damaged"),
        (b"(I1\n.", r"instruction b'I'"),
        (b"X\xff\xff\xff\xff", "a text of 4294967295 bytes"),
        (b"Nr\xff\xff\xff\x7f.", "number its objects in order"),
        (b"j\x05\x00\x00\x00.", "damaged"),
        (b"}K\x01a.", "it appends to a dict"),
        (b"](K\x01K\x02u.", "it sets an item of a list"),
        (b"}(K\x01u.", "damaged"),
        (b"K\x01\x86.", "takes more values than it gives"),
        (b"R.", "takes more values than it gives"),
        (b"u.", "damaged"),
        (b"G\x00\x00", "damaged"),
        (b"\x85" * 10, "takes more values than it gives"),
        (b"}K\x01" + b"\x85" * 200_000 + b"Ns.", "it has a tuple as a key"),
        (b"ccollections\nOrderedDict\nK\x01b.", "it does what no array of numbers does"),
        (b"]" * 2000, "it ends too early"),
    ],
)
def test_damaged_streams_are_answered_with_a_sentence(content: bytes, problem: str) -> None:
    with pytest.raises(UserError, match=problem) as caught:
        read(content)
    assert len(str(caught.value)) < 300


def test_random_damage_never_ends_in_another_error() -> None:
    rng = random.Random(0)  # noqa: S311
    good = pickle.dumps(VALUE, 4)[:600]
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        with pytest.raises(UserError):
            read(bytes(bad[: rng.randint(1, len(bad))]))


def test_a_stream_that_unpacks_to_too_much_is_refused() -> None:
    with pytest.raises(UserError, match="unpacks to more than 1 MB"):
        read(b"N" * 2_000_000, most=1_000_000)


def test_values_that_take_too_much_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_stream, "_MOST_MEMORY", 10**7)
    monkeypatch.setattr(pickle_stream, "_CHUNK", 10**5)
    for bomb in (b"]" + b"]a" * 10**6, b"(" * 10**6, b"N" + b"\x94" * 10**7, b"](" + b"M\x01\x01" * 10**6):
        with pytest.raises(UserError, match="GB of memory"):
            read(bomb)
