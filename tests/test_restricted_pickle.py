"""Pickles are read, and whatever tries to run code is refused."""

from __future__ import annotations

import os
import pickle
import pickletools
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from each_of import each_of

from archgrad.errors import UserError
from archgrad.restricted_pickle import read_arrays, read_plain


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


@pytest.mark.parametrize("value", [None, True, 1, b"x", (1.0,), {1.0}, 1j, print, object(), ValueError("x"), "x" * 300])
def test_anything_but_plain_data_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"^file, byte \d+: instruction \w+ is not about dicts"):
        read_plain(pickle.dumps([1.0, value], protocol=4), "file")


KNOWN = {"BINFLOAT", "MEMOIZE", "MARK", "EMPTY_LIST", "APPENDS", "BINGET", "SHORT_BINUNICODE", "SETITEMS"}
KNOWN |= {"EMPTY_DICT", "APPEND", "SETITEM", "LONG_BINGET", "FRAME", "PROTO", "STOP"}
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


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "created"
    with pytest.raises(UserError, match=r"the file was refused: it asks to run (posix|nt)\.system"):
        read_arrays(pickle.dumps({"data": Runs(target)}, protocol), "the file")
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
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
        (b"c_codecs\nencode\nN}S'__defaults__'\nNs\x86b.", "does what no array"),  # changes an allowed function
        (b"cnumpy\ndtype\n}S'x'\nNsb.", "does what no array"),
        (b"c_codecs\nencode\n(S'x'\nS'zip'\ntR.", "does what no array"),
        (b"cnumpy\nndarray\n)R.", "does what no array"),
        (b"cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.", "type 'O8'"),
        (b"cnumpy\ndtype\n(S'V8'\nI0\nI1\ntR.", "type 'V8'"),
        (b"Pname\n.", "persistent"),
        (b"(I1\nI2\nl.", "a list and not a dictionary"),
        (b"}I1\nI2\ns.", "a int where a name belongs"),
        (b"}S'a'\ncnumpy\ndtype\ns.", "it holds a StandIn"),
        (b"}r\xff\xff\xff\x7f.", "it numbers an object 2147483647"),  # would reserve gigabytes
        (b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00.", "bytearray8"),
        (b"", "pickle exhausted before seeing STOP"),
        (array_pickle(b"(K\x01K\x02\x85N\x89U\x02abtb"), "does what no array"),
        (array_pickle(b"(K\x01U\x01x\x85" + DTYPE + b"\x89U\x02abtb"), "array of shape"),
        (array_pickle(b"(K\x01K\x03\x85" + DTYPE + b"\x89U\x02abtb"), r"shape \(3,\) with 2 bytes"),
        (array_pickle(b""), "array without content"),
    ],
)
def test_odd_pickles_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=f"the file is truncated or damaged .*{reason}"):
        read_arrays(content, "the file")


def test_object_arrays_are_refused() -> None:
    with pytest.raises(UserError, match="type 'O8'"):
        read_arrays(pickle.dumps({"data": np.array([{}], dtype=object)}, 2), "the file")


def test_every_truncation_is_refused() -> None:
    whole = pickle.dumps({b"data": np.zeros((2, 3), np.uint8), b"labels": [1, 2]}, 2)
    for length in range(len(whole)):
        with pytest.raises(UserError, match="the file"):
            read_arrays(whole[:length], "the file")
