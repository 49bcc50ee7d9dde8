"""Pickles are read, and whatever tries to run code is refused."""

from __future__ import annotations

import os
import pickle
import pickletools
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from each_of import each_of

from archgrad.errors import UserError
from archgrad.system import restricted_pickle
from archgrad.system.restricted_pickle import read_arrays, read_plain


def random_value(draw: Random, depth: int = 0) -> object:
    kind = draw.choice(["float", "text"] if depth > 3 else ["float", "text", "list", "dict"])
    if kind == "float":
        return draw.uniform(-1e9, 1e9)
    if kind == "text":
        return "".join(draw.choices("aé漢😀", k=draw.randint(0, 5)))
    values = [random_value(draw, depth + 1) for _ in range(draw.choice([0, 1, 2, 5]))]
    return values if kind == "list" else {str(index): value for index, value in enumerate(values)}


@each_of(range(100))
def test_plain_data_is_read_as_it_was_written(seed: int) -> None:
    value = random_value(Random(seed))  # noqa: S311  # cases to try, not secrets
    assert read_plain(pickle.dumps(value, protocol=4), "file") == value


def test_long_tables_with_repeated_strings_are_read() -> None:
    texts = [f"text {index}" for index in range(1000)]
    value = {text: [text, text] for text in texts} | {"again": texts}
    assert read_plain(pickle.dumps(value, protocol=4), "file") == value


VALUE = {
    "texts": ["a", "ä" * 300, "", "a"],
    "numbers": [0, 255, 256, 65536, -1, -300, 2**40, -(2**70), 1.5],
    "of numpy": [np.float64(2.5), np.int32(7)],
    "nested": {("a", 1): ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 5: {}},
    "none": [None, True, False],
    "set": {1, 2, 3},
    "ordered": OrderedDict(a=1),
    "counted": Counter("aab"),
    "default": defaultdict(list, a=[1]),
    "many": list(range(3000)),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_kind_of_plain_data_comes_back(protocol: int) -> None:
    found = read_plain(pickle.dumps(VALUE, protocol), "file")
    assert found == VALUE
    assert type(found["ordered"]) is type(found["counted"]) is type(found["default"]) is dict
    assert [type(number) for number in found["of numpy"]] == [float, int]


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
        (Own(), "instruction NEWOBJ"),
        (object(), "instruction NEWOBJ"),
        (np.ones(3), "asks to run"),
        (1j, "asks to run"),
        (print, "asks to run"),
        (ValueError("x"), "asks to run"),
    ],
)
def test_anything_but_plain_data_is_refused(value: object, problem: str, protocol: int) -> None:
    with pytest.raises(UserError, match=problem):
        read_plain(pickle.dumps([1.0, value], protocol), "file")


KNOWN = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "NONE",
    "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINSTRING", "BINSTRING",
    "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_SET",
    "ADDITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
}  # fmt: skip
NAMES = {ord(instruction.code): instruction.name for instruction in pickletools.opcodes}
ARGUMENTS = (b"", b"1\n1\n.", b"'1'\n.", b"\0" * 8 + b".")
"""One of them follows every instruction in a stream without mistakes."""


@each_of(sorted(set(range(256)) - {code for code in NAMES if NAMES[code] in KNOWN}))
def test_every_other_instruction_is_refused(code: int) -> None:
    problems = []
    for arguments in ARGUMENTS:
        with pytest.raises(UserError) as error:
            read_plain(bytes([code]) + arguments, "file")
        problems.append(str(error.value))
    if code in NAMES:
        assert any(f"byte 0: instruction {NAMES[code]} is not about dicts" in problem for problem in problems)


@pytest.mark.parametrize("code", [code for code in NAMES if NAMES[code] in KNOWN])
def test_an_instruction_alone_is_a_damaged_file(code: int) -> None:
    with pytest.raises(UserError, match="file is truncated or damaged"):
        read_plain(bytes([code]), "file")


def test_data_that_holds_itself_is_no_danger() -> None:
    value: list[object] = []
    value.append(value)
    read = read_plain(pickle.dumps(value, protocol=4), "file")
    assert isinstance(read, list)
    assert read[0] is read


@pytest.mark.parametrize("length", range(0, 60, 3))
def test_a_file_cut_off_anywhere_is_refused(length: int) -> None:
    whole = pickle.dumps({"a": [1.0, 2.0], "b": {"c": "d" * 30}}, protocol=4)
    assert length < len(whole)
    with pytest.raises(UserError, match=r"file is truncated or damaged .*; get the file again"):
        read_plain(whole[:length], "file")


def test_nesting_costs_no_stack() -> None:
    read_plain(b"](" * 100_000 + b"e" * 100_000 + b".", "file")
    read_plain(b"}K\x01" + b"\x85" * 10_000 + b"Ns.", "file")  # Python looks into each tuple of a key


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "exhausted"),
        (b"\x80\x02", "exhausted"),
        (b"hello", "instruction LIST"),
        (b"(I1\n.", "instruction INT"),
        (b"X\xff\xff\xff\xff", "4294967295 bytes"),
        (b"Nr\xff\xff\xff\x7f.", "it numbers an object 2147483647"),
        (b"Np2147483647\n.", "instruction PUT"),
        (b"j\x05\x00\x00\x00.", "damaged"),
        (b"}K\x01a.", "damaged"),
        (b"](K\x01K\x02u.", "damaged"),
        (b"}(K\x01u.", "damaged"),
        (b"K\x01\x86.", "damaged"),
        (b"R.", "damaged"),
        (b"u.", "damaged"),
        (b"G\x00\x00", "damaged"),
        (b"\x85" * 10, "damaged"),
        (b"}K\x01" + b"\x85" * 200_000 + b"Ns.", "10001 of them for tuples"),
        (b"ccollections\nOrderedDict\nK\x01b.", "it does what no array of numbers does"),
        (b"ccollections\nOrderedDict\nN}X\x01\x00\x00\x00aNs\x86b.", "it does what no array of numbers does"),
        (b"ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00aNsb.", "damaged"),
        (b"\x82\x01.", "instruction EXT1"),
        (b"NQ.", "instruction BINPERSID"),
        (b"\x8e\xff\xff\xff\xff\x0f\x00\x00\x00.", "damaged"),
        (b"\x8b\xff\xff\xff\x7f.", "damaged"),
        (b"]" * 2000, "exhausted"),
    ],
)
def test_damaged_and_hostile_streams_are_answered_with_a_sentence(content: bytes, problem: str) -> None:
    with pytest.raises(UserError, match=problem) as caught:
        read_plain(content, "the file")
    assert len(str(caught.value)) < 300


def test_random_damage_never_ends_in_another_error() -> None:
    rng = Random(0)  # noqa: S311
    good = pickle.dumps(VALUE, 4)[:600]
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        with pytest.raises(UserError):
            read_plain(bytes(bad[: rng.randint(1, len(bad))]), "the file")


def test_values_that_take_too_much_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restricted_pickle, "_MOST_INSTRUCTIONS", 10**4)
    for bomb in (
        b"]" + b"]a" * 10**5,
        b"(" * 10**5,
        b"N" + b"\x94" * 10**5,
        b"](" + b"M\x01\x01" * 10**5,
        b"\x8f" * 10**5,
    ):
        with pytest.raises(UserError, match="more than 10000 instructions"):
            read_plain(bomb + b".", "file")


@pytest.mark.parametrize(
    "call",
    [
        b"c_codecs\nencode\nX\x64\x00\x00\x00" + b"a" * 100 + b"X\x06\x00\x00\x00latin1\x86q\x01",
        b"cbuiltins\nset\n](" + b"".join(b"K%c" % n for n in range(100)) + b"e\x85q\x01",
    ],
    ids=["text", "set"],
)
def test_copies_of_one_value_cannot_fill_the_memory(call: bytes) -> None:
    again = call[: call.index(b"\n", call.index(b"\n") + 1) + 1] + b"h\x01R"
    assert len(read_plain(call + b"R.", "file")) == 100
    with pytest.raises(UserError, match="does what no array"):
        read_plain(call + b"R" + again * 100 + b".", "file")


# --- dictionaries of arrays ------------------------------------------------------------------------------------------


def test_python_2_pickles() -> None:
    """The official files have byte strings where Python 3 would write text."""
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
        b"U\x01b\x87Rq\x05(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff"
        b"\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06abcdeftbU\x06labelsq\x08]q\x09(K\x06K\x09eu."
    )
    values = read_arrays(content, "the file")
    assert values["data"].tolist() == [[97, 98, 99], [100, 101, 102]]
    assert values["labels"] == [6, 9]


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_survive(dtype: str, order: Any, protocol: int) -> None:
    array = np.asarray(np.arange(12).reshape(3, 4), dtype=dtype, order=order)
    found = read_arrays(pickle.dumps({"a": array}, protocol), "the file")["a"]
    assert np.array_equal(found, array)
    assert found.dtype == array.dtype


class Runs:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_code_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "created"
    problem = r"the file was refused: it asks to run (posix|nt)\.system" if protocol else "instruction DICT"
    with pytest.raises(UserError, match=problem):
        read_arrays(pickle.dumps({"data": Runs(target)}, protocol), "the file")
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(U\x011tR.",
        b"cnumpy\nload\n(U\x01xtR.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cnumpy.core.multiarray\n_reconstruct.__globals__\n.",
        b"\x80\x04\x8c\x07_codecs\x8c\x06decode\x93.",
        b"ccodecs\nencode\n.",
    ],
)
def test_other_globals_are_named(content: bytes) -> None:
    with pytest.raises(UserError, match="it asks to run"):
        read_arrays(content, "the file")


DTYPE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"


def array_pickle(state: bytes) -> bytes:
    return b"\x80\x02}U\x01acnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R" + state + b"s."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"c_codecs\nencode\nN}U\x0c__defaults__Ns\x86b.", "does what no array"),  # changes an allowed function
        (b"cnumpy\ndtype\n}U\x01xNsb.", "does what no array"),
        (b"c_codecs\nencode\n(U\x01xU\x03ziptR.", "does what no array"),
        (b"cnumpy\nndarray\n)R.", "does what no array"),
        (b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR.", "type 'O8'"),
        (b"cnumpy\ndtype\n(U\x02V8K\x00K\x01tR.", "type 'V8'"),
        (b"](K\x01K\x02e.", "a list and not a dictionary"),
        (b"}K\x01K\x02s.", "a int where a name belongs"),
        (b"}U\x01acnumpy\ndtype\ns.", "it holds a _StandIn"),
        (b"}r\xff\xff\xff\x7f.", "it numbers an object 2147483647"),  # would reserve gigabytes
        (b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00.", "bytearray8"),
        (b"", "pickle exhausted before seeing STOP"),
        (array_pickle(b"(K\x01K\x02\x85N\x89U\x02abtb"), "does what no array"),
        (array_pickle(b"(K\x01U\x01x\x85" + DTYPE + b"\x89U\x02abtb"), "as an integer"),
        (array_pickle(b"(K\x01K\x03\x85" + DTYPE + b"\x89U\x02abtb"), r"array of size 2 into shape \(3,\)"),
        (array_pickle(b""), "_Array without content"),
    ],
)
def test_odd_pickles_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=f"the file is truncated or damaged .*{reason}"):
        read_arrays(content, "the file")


@pytest.mark.parametrize("content", [b"cnumpy\nndarray\n)\x81.", b"Pname\n.", b"(I1\nI2\nl.", b"(S'a'\nI1\nd."])
def test_other_instructions_are_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"the file, byte \d+: instruction (NEWOBJ|PERSID|INT|STRING) is not about"):
        read_arrays(content, "the file")


def test_object_arrays_are_refused() -> None:
    with pytest.raises(UserError, match="type 'O8'"):
        read_arrays(pickle.dumps({"data": np.array([{}], dtype=object)}, 2), "the file")


def test_every_truncation_is_refused() -> None:
    whole = pickle.dumps({b"data": np.zeros((2, 3), np.uint8), b"labels": [1, 2]}, 2)
    for length in range(len(whole)):
        with pytest.raises(UserError, match="the file"):
            read_arrays(whole[:length], "the file")
