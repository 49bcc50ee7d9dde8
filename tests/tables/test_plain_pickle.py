from __future__ import annotations

import pickle
import pickletools
from random import Random

import pytest

from archgrad.errors import UserError
from archgrad.tables.plain_pickle import read_plain


def random_value(draw: Random, depth: int = 0) -> object:
    kind = draw.choice(["float", "text"] if depth > 3 else ["float", "text", "list", "dict"])
    if kind == "float":
        return draw.uniform(-1e9, 1e9)
    if kind == "text":
        return "".join(draw.choices("aé漢😀", k=draw.randint(0, 5)))
    values = [random_value(draw, depth + 1) for _ in range(draw.choice([0, 1, 2, 5]))]
    return values if kind == "list" else {str(index): value for index, value in enumerate(values)}


@pytest.mark.parametrize("seed", range(100))
def test_plain_data_is_read_as_it_was_written(seed: int) -> None:
    value = random_value(Random(seed))  # noqa: S311  # cases to try, not secrets
    assert read_plain(pickle.dumps(value, protocol=4), "file") == value


def test_long_tables_with_repeated_strings_are_read() -> None:
    texts = [f"text {index}" for index in range(1000)]
    value = {text: [text, text] for text in texts} | {"again": texts}
    assert read_plain(pickle.dumps(value, protocol=4), "file") == value


@pytest.mark.parametrize("value", [None, True, 1, b"x", (1.0,), {1.0}, 1j, print, object(), ValueError("x"), "x" * 300])
def test_anything_but_plain_data_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"^file, byte \d+: instruction 0x.. is not about dicts"):
        read_plain(pickle.dumps([1.0, value], protocol=4), "file")


KNOWN = {"BINFLOAT", "MEMOIZE", "MARK", "EMPTY_LIST", "APPENDS", "BINGET", "SHORT_BINUNICODE", "SETITEMS"}
KNOWN |= {"EMPTY_DICT", "APPEND", "SETITEM", "LONG_BINGET", "FRAME", "PROTO", "STOP"}


@pytest.mark.parametrize("code", range(256))
def test_every_other_instruction_is_refused(code: int) -> None:
    names = {ord(instruction.code): instruction.name for instruction in pickletools.opcodes}
    refused = "is not about dicts" if names.get(code) not in KNOWN else "cut off or damaged"
    with pytest.raises(UserError, match=refused):
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
    with pytest.raises(UserError, match=r"file, byte \d+: the file is cut off or damaged; install it again"):
        read_plain(whole[:length], "file")


def test_nesting_costs_no_stack() -> None:
    read_plain(b"](" * 100_000 + b"e" * 100_000 + b".", "file")
