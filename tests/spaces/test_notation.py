from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from each_of import each_of

from archgrad.errors import UserError
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

NB201_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
DARTS_OPERATIONS = ("max_pool_3x3", "skip_connect", "sep_conv_3x3", "dil_conv_5x5")
EDGE = "('sep_conv_3x3', 0), ('skip_connect', 1)"
DARTS = f"Genotype(normal=[{EDGE}], normal_concat=[2])"


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311  # cases to try, not secrets


def nasbench201(draw: Random) -> Genotype:
    edges = [(target, source) for target in (1, 2, 3) for source in range(target)]
    decisions = (Decision(target, source, draw.choice(NB201_OPERATIONS)) for target, source in edges)
    return Genotype.of({"cell": CellGenotype(tuple(decisions))})


def darts_cell(draw: Random) -> CellGenotype:
    last = draw.randint(2, 6)
    decisions: list[Decision] = []
    for target in range(2, last + 1):
        sources = draw.sample(range(target), 2)
        decisions += [Decision(target, source, draw.choice(DARTS_OPERATIONS)) for source in sources]
    concat = draw.sample(range(last + 1), draw.randint(1, last + 1))
    return CellGenotype(tuple(decisions), tuple(draw.choice([concat, sorted(concat), range(2, last + 1)])))


def anything(draw: Random) -> Genotype:
    letters = "ab|~+'\"\\()[]{},=é漢 _-.0\U0001f600"

    def name() -> str:
        return "".join(draw.choices(letters, k=draw.randint(1, 6)))

    def cell() -> CellGenotype:
        sources = [None, 0, 1, 2, 9999]
        rows = (Decision(draw.randint(0, 5), draw.choice(sources), name()) for _ in range(draw.randint(0, 6)))
        return CellGenotype(tuple(rows), draw.choice([None, (), (2, 3), (5, 5)]))

    return Genotype.of({draw.choice(["cell", "normal", "class", "x_concat", "ﬁ", name()]): cell() for _ in range(3)})


def error_of(text: str) -> str:
    """Return the message of the refusal, which must be short."""
    with pytest.raises(UserError) as caught:
        Genotype.parse(text)
    assert len(str(caught.value)) < 600
    return str(caught.value)


# --- round trips --------------------------------------------------------------------------------------------------


@each_of(range(200))
def test_nasbench201_round_trip(seed: int) -> None:
    genotype = nasbench201(seeded(seed))
    assert str(genotype) == genotype.format("nasbench201")
    assert str(genotype).startswith("|")
    assert Genotype.parse(str(genotype)) == genotype == Genotype.parse(genotype.to_json())


@each_of(range(200))
def test_darts_round_trip(seed: int) -> None:
    draw = seeded(seed)
    genotype = Genotype.of({"normal": darts_cell(draw), "reduce": darts_cell(draw)})
    assert str(genotype) == genotype.format("darts")
    assert str(genotype).startswith("Genotype(normal=[")
    assert Genotype.parse(str(genotype)) == genotype == Genotype.parse(genotype.to_json())


@each_of(range(100))
def test_nodes_in_brackets_round_trip(seed: int) -> None:
    draw = seeded(seed)
    text = ""
    for node in range(1, draw.randint(2, 9)):
        sources = sorted(draw.sample(range(node), draw.randint(1, node)))
        text += f"[{draw.choice(('conv3x3-bn-relu', 'maxpool3x3', 'x'))}~{','.join(map(str, sources))}]"
    last = text.count("[") + 1
    text += f"[output~{','.join(map(str, sorted(draw.sample(range(last), draw.randint(1, last)))))}]"
    genotype = Genotype.parse(text)
    assert str(genotype) == genotype.format("nodes") == text
    assert Genotype.parse(genotype.to_json()) == genotype
    assert genotype.names == ("operations", "inputs", "output")


NODES = Genotype.parse("[a~0][b~1][c~0,2][output~2,3]")


@pytest.mark.parametrize(
    ("block", "decisions"),
    [
        ("operations", ((1, None, "a"), (2, None, "b"))),  # the output is node 4, but there are two nodes
        ("operations", ((2, None, "b"), (1, None, "a"), (3, None, "c"))),
        ("operations", ((1, None, "a"), (2, None, "output"), (3, None, "c"))),
        ("operations", ((1, 0, "a"), (2, None, "b"), (3, None, "c"))),
        ("operations", ((1, None, "a b"), (2, None, "b"), (3, None, "c"))),
        ("inputs", ((2, None, "1"), (3, None, "2"), (3, None, "0"))),
        ("inputs", ((3, None, "0"), (3, None, "2"), (2, None, "1"))),
        ("inputs", ((2, None, "2"),)),
        ("inputs", ((2, None, "x"),)),
        ("inputs", ((1, None, "0"), (2, None, "1"))),  # node 1 has no choice
        ("output", ((4, None, "2"), (5, None, "3"))),
        ("output", ()),
    ],
)
def test_what_brackets_cannot_hold_is_printed_as_json(block: str, decisions: tuple[tuple[int, None, str], ...]) -> None:
    cells = dict(NODES.blocks) | {block: CellGenotype(tuple(Decision(*decision) for decision in decisions))}
    genotype = Genotype.of(cells)
    assert str(genotype).startswith("{")
    assert Genotype.parse(str(genotype)) == genotype
    with pytest.raises(UserError, match="cannot be printed in the notation 'nodes'"):
        genotype.format("nodes")


@each_of(range(500))
def test_whatever_a_genotype_is_its_print_parses_back(seed: int) -> None:
    genotype = anything(seeded(seed))
    assert Genotype.parse(str(genotype)) == genotype == Genotype.parse(genotype.to_json())


@pytest.mark.parametrize(
    "text",
    [
        DARTS,
        f"\n\t {DARTS}\r\n",
        f"\ufeff{DARTS}",
        DARTS.replace("'", '"'),
        DARTS.replace(", ", ",\r\n\t"),
        f"Genotype(normal_concat=[2], normal=[{EDGE}],)",
        f"Genotype(normal=({EDGE},), normal_concat=(2,))",
        "Genotype(normal=[['sep_conv_3x3', 0,], ['skip_connect', 1]], normal_concat=range(2, 3))",
        f"Genotype(normal=[{EDGE}], normal_concat=list(range(2, 3)))",
        f"Genotype(normal=[{EDGE}], normal_concat=list([2]))",
    ],
)
def test_the_printed_form_as_people_print_it(text: str) -> None:
    assert str(Genotype.parse(text)) == f"Genotype(normal=[{EDGE}], normal_concat=range(2, 3))"


def test_json_ignores_what_else_a_file_says_at_its_top() -> None:
    content = Genotype.parse(DARTS).to_dict() | {"space": "darts"}
    assert Genotype.parse(f"\ufeff {json.dumps(content, indent=2)}\n") == Genotype.parse(DARTS)


# --- malformed text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "problem"),
    [
        ("¦", "none of the notations"),
        ("  ¦[1]", "this is not a node in brackets"),
        # nodes in brackets
        ("[a~0]¦", "there is no output"),
        ("[a~0][output~¦]", "'' does not name earlier nodes"),
        ("[a~0][output~¦2]", "'2' does not name earlier nodes"),
        ("[a~0][output~¦1,0]", "is not in order, or names a node twice"),
        ("[¦~0][output~1]", "'' is not the name of an operation"),
        ("[a~0][output~1]¦[a~0]", "something follows the output"),
        # NAS-Bench-201
        ("¦|", "node 1 is not enclosed"),
        ("|¦a|", "'a' is not operation~source"),
        ("|a~¦1|", "the source '1' should be 0"),
        ("|a~0|+|b~¦1|c~0|", "the source '1' should be 0; edges come in order, so write b~0"),
        ("|a~0|+¦|b~0|", "node 2 has 1 edges; node 2 takes one from each of the 2 nodes before it"),
        # the printed form
        ("¦Genotype", "not one call Genotype"),
        ("Genotype()¦", "it has no cell"),
        (f"Genotype(¦[{EDGE}])", "fields must be given by name"),
        ("Genotype(normal=¦1)", "a cell is a list with two edges for each node"),
        ("Genotype(normal=¦[])", "this one has 0 in all"),
        ("Genotype(normal=[¦(a, 0)])", "quoted operation"),
        ("Genotype(normal=[¦('a b', 0)])", "quoted operation"),
        ("Genotype(normal=[¦('a', -1)])", "an edge is a pair"),
        ("Genotype(normal=[¦('a', 2)])", "the input 2 does not come before node 2; node 2 takes its inputs from"),
        (f"Genotype(normal=[{EDGE} ¦('a', 0)])", "',' or the closing bracket is missing"),
        (f"Genotype(¦normal=[{EDGE}])", "does not say which nodes it concatenates; add normal_concat"),
        ("Genotype(a_concat=¦[2])", "'a_concat' belongs to no cell; add a=[…]"),
        (f"Genotype(n=[{EDGE}], ¦n=[{EDGE}])", "'n' is given twice"),
        (f"Genotype(n=[{EDGE}], n_concat=¦5)", "a list or a range"),
        (f"Genotype(n=[{EDGE}], n_concat=¦[3])", "[3] does not name nodes of the cell; use nodes from 0 to 2"),
        (f"Genotype(n=[{EDGE}], n_concat=¦range(2, 6))", "does not name nodes"),
        (f"Genotype(n=[{EDGE}], n_concat=¦range(1, 2, 3))", "range takes one or two numbers"),
        (f"Genotype(n=[{EDGE}], n_concat=¦range(0, 999999999))", "one or two numbers up to 10000"),
        (f"Genotype(n=[{EDGE}] ¦n_concat=[2])", "',' or the closing bracket is missing"),
        (f"{DARTS}¦ + 1", "something follows the call"),
        # JSON
        ("{¦", "not valid JSON"),
        ('{"format": "archgrad.genotype/1", "blocks": {}}¦ x', "something follows the JSON"),
    ],
)
def test_malformed_text_names_the_position_and_a_fix(marked: str, problem: str) -> None:
    message = error_of(marked.replace("¦", ""))
    assert re.match(r"malformed genotype at position (\d+)", message)[1] == str(marked.index("¦"))  # type: ignore[index]
    assert problem in message
    assert ";" in message.partition(problem)[2] or ";" in problem


def wrapped(blocks: object) -> str:
    return json.dumps({"format": "archgrad.genotype/1", "blocks": blocks})


def row(**fields: object) -> str:
    return wrapped({"cell": {"decisions": [{"choice": "a", "target": 1} | fields]}})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "\"format\" is None; it must be 'archgrad.genotype/1'"),
        ('{"format": "archgrad.genotype/1"}', '"blocks" are None'),
        (wrapped({"": {"decisions": []}}), "name of a block is ''"),
        (wrapped({"cell": 3}), "block 'cell' is 3; it must be a JSON object with \"decisions\""),
        (wrapped({"cell": {"decisions": {}}}), "no JSON array"),
        (wrapped({"cell": {"decisions": [], "concatt": [1]}}), "did you mean 'concat'"),
        (wrapped({"cell": {"decisions": [], "concat": 2}}), "in block 'cell', concat of CellGenotype is 2"),
        (wrapped({"cell": {"decisions": ["a"]}}), "decision 0 of block 'cell' is 'a'; it must be a JSON object with"),
        (row(choice=""), "choice of Decision is ''"),
        (row(choice="\ud800"), "all printable"),
        (row(target="1"), "target of Decision is '1'"),
        (row(target=10**9), "target of Decision is 1000000000; it must be at most 9,999"),
        (row(source=[0]), "source of Decision is [0]"),
        (row(sauce=0), "did you mean 'source'"),
        ('{"format": 1, "format": 2}', "the key 'format' appears twice in one object; keep one of them"),
    ],
)
def test_malformed_json_names_the_place_and_what_belongs_there(text: str, problem: str) -> None:
    assert problem in error_of(text)


# --- hostile text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "__import__('pathlib').Path('made').touch()",
        "[('a', __import__('pathlib').Path('made').touch())]",
        "(lambda: open('made', 'w'))()",
        "[open('made', 'w') for x in [1]]",
        '[(f\'{open("made", "w")}\', 0)]',
    ],
)
@pytest.mark.parametrize("field", ["normal", "normal_concat"])
def test_no_code_runs(code: str, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error_of(f"Genotype({field}={code})")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_001,
        "Genotype(normal=" + "[" * 100_000,
        "Genotype(normal=[" + "('a', 0), " * 90_001,
        "Genotype(" + " " * 900_000,
        "Genotype(" + "a" * 900_000 + "_concat=[2])",
        "Genotype(n=[" + EDGE + "], n_concat=[" + "2, " * 300_000 + "])",
        "Genotype(n=[('a', 0" + " " * 900_000,
        "Genotype(a=\x00)",
        "{" + "[" * 100_000,
        '{"format":' + "[" * 500 + "]" * 500 + "}",
        '{"format": "' + "x" * 900_000 + '"}',
        "{" + ", ".join(f'"k{index}": 0' for index in range(60_000)) + ', "k59999": 1}',
        row(choice=7, **{"x" * 900_000: 1}),
        "|" + "a" * 900_000 + "~1|",
        "|" * 900_000,
        "|a~0|" + "+|a~0|" * 100_000,
    ],
    ids=lambda text: f"{text[:24]!a}…{len(text)}",
)
def test_huge_and_nested_text_is_refused_in_a_short_sentence(text: str) -> None:
    assert error_of(text)


@each_of(range(300))
def test_damaged_text_parses_or_is_refused(seed: int) -> None:
    draw = seeded(seed)
    whole = draw.choice([nasbench201(draw), Genotype.of({"n": darts_cell(draw)}), NODES])
    text = [*draw.choice([str(whole), whole.to_json()])]
    for _ in range(draw.randint(1, 3)):
        text[draw.randrange(len(text))] = draw.choice(["", "0", "|", "(", "]", ",", '"', "\\", "é", "\n"])
    try:
        genotype = Genotype.parse("".join(text))
    except UserError:
        return
    assert Genotype.parse(str(genotype)) == genotype
