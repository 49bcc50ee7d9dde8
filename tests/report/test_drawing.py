from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree

import pytest

from archgrad.errors import UserError
from archgrad.report import draw, to_svg, to_text
from archgrad.report.layout import BOX, CellLayout, lay_out
from archgrad.report.svg import COLORS
from archgrad.report.wiring import kind_of, printable
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

NB201 = Genotype.parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|+|skip_connect~0|nor_conv_1x1~1|avg_pool_3x3~2|")
EDGES = "('sep_conv_3x3', 0), ('skip_connect', 1), ('dil_conv_5x5', 2), ('max_pool_3x3', 0)"
DARTS = Genotype.parse(f"Genotype(normal=[{EDGES}], normal_concat=[2, 3], reduce=[{EDGES}], reduce_concat=[3])")
FULL = Genotype.of(
    {"full": CellGenotype(tuple(Decision(to, at, "sep_conv_5x5") for to in range(1, 7) for at in range(to)), (4, 5, 6))}
)
HOSTILE = '"];\\N\\"<b>&amp; }</text><script>'
STRANGE = Genotype.of(
    {
        "layers": CellGenotype((Decision(0, None, "mbconv_3x3"), Decision(1, None, "skip_connect"))),
        HOSTILE: CellGenotype((Decision(1, 0, HOSTILE), Decision(2, 1, "x" * 10_000), Decision(2, None, HOSTILE))),
        "mixed": CellGenotype((Decision(1, None, "conv"), Decision(1, 0, "skip"), Decision(3, 1, "a")), (1, 3)),
        "loop": CellGenotype((Decision(1, 1, "a"), Decision(0, 9999, "b"))),
        "empty": CellGenotype(()),
        "only output": CellGenotype((), (4,)),
    }
)
NODES = Genotype.parse("[conv3x3~0][maxpool3x3~1][conv1x1~0][conv3x3~1,3][maxpool3x3~0,2][output~0,5]")
SIGNATURES = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}


# --- text ---------------------------------------------------------------------------------------------------------


def test_text_of_a_nasbench201_cell() -> None:
    assert to_text(NB201) == (
        "cell\n"
        "  0  (input)\n"
        "  1  ◄── nor_conv_3x3 ── 0\n"
        "  2  ◄── nor_conv_3x3 ── 0\n"
        "     ◄·· none ·········· 1\n"
        "  3  ◄── skip_connect ── 0  (output)\n"
        "     ◄── nor_conv_1x1 ── 1\n"
        "     ◄── avg_pool_3x3 ── 2\n"
    )


def test_text_of_a_darts_genotype() -> None:
    normal = (
        "normal\n"
        "  c_{k-2}  (input)\n"
        "  c_{k-1}  (input)\n"
        "  2        ◄── sep_conv_3x3 ── c_{k-2}\n"
        "           ◄── skip_connect ── c_{k-1}\n"
        "  3        ◄── dil_conv_5x5 ── 2\n"
        "           ◄── max_pool_3x3 ── c_{k-2}\n"
        "  c_{k}    ◄── concatenation of 2, 3\n"
    )
    assert to_text(DARTS) == normal + "\n" + normal.replace("normal", "reduce").replace("of 2, 3", "of 3")


def test_text_of_anything_else() -> None:
    text = to_text(STRANGE)
    assert "layers\n  0  [mbconv_3x3]\n  1  [skip_connect]\n" in text
    assert "mixed\n  0       (input)\n  1       [conv]\n          ◄── skip ── 0\n  3       ◄── a ───── 1\n" in text
    assert "  output  ◄── concatenation of 1, 3\n" in text
    assert "empty\n  (no decisions)\n" in text
    assert "only output\n  4       (input)\n  output  ◄── concatenation of 4\n" in text
    assert to_text(Genotype()) == "(a genotype without blocks)\n"


def test_text_of_operations_on_nodes() -> None:
    assert to_text(NODES).splitlines() == [
        "cell",
        "  0  (input)",
        "  1  [conv3x3]     ◄── 0",
        "  2  [maxpool3x3]  ◄── 1",
        "  3  [conv1x1]     ◄── 0  (leads nowhere)",
        "  4  [conv3x3]     ◄── 1, 3  (leads nowhere)",
        "  5  [maxpool3x3]  ◄── 0, 2",
        "  6  (output)      ◄── 0, 5",
    ]


def test_text_is_printable_utf8_with_short_lines() -> None:
    lines = to_text(STRANGE).splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 160
    "\n".join(lines).encode()


# --- pictures -----------------------------------------------------------------------------------------------------


def overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def boxes_of(cell: CellLayout) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of everything that has a text."""
    sizes = [(node.x, node.y, node.width, node.height) for node in cell.nodes]
    sizes += [(*edge.box, edge.width, BOX) for edge in cell.edges if edge.operation is not None]
    return [(x - width / 2, y - height / 2, x + width / 2, y + height / 2) for x, y, width, height in sizes]


@pytest.mark.parametrize("genotype", [NB201, DARTS, NODES, FULL], ids=["nb201", "darts", "nodes", "full"])
def test_nothing_that_is_drawn_overlaps_or_leaves_the_picture(genotype: Genotype) -> None:
    for cell in lay_out(genotype):
        boxes = boxes_of(cell)
        for one, other in itertools.combinations(boxes, 2):
            assert not overlap(one, other)
        assert min(min(box) for box in boxes) >= 0
        assert max(box[2] for box in boxes) <= cell.width
        assert max(box[3] for box in boxes) <= cell.height


def test_nodes_stand_in_order_and_edges_join_them() -> None:
    (cell,) = lay_out(NB201)
    assert [node.rows for node in cell.nodes] == [("0", "input"), ("1",), ("2",), ("3", "output")]
    assert [node.x for node in cell.nodes] == sorted(node.x for node in cell.nodes)
    assert [edge.operation for edge in cell.edges] == [decision.choice for decision in NB201.decisions]
    for edge, decision in zip(cell.edges, NB201.decisions, strict=True):
        for (x, _), node in ((edge.start, cell.nodes[decision.source]), (edge.end, cell.nodes[decision.target])):
            assert abs(x - node.x) <= node.width / 2


def test_a_darts_cell_ends_in_its_concatenation() -> None:
    normal, reduce = lay_out(DARTS)
    assert (normal.title, reduce.title) == ("normal", "reduce")
    assert [node.rows[0] for node in normal.nodes] == ["c_{k-2}", "c_{k-1}", "2", "3", "c_{k}"]
    assert [sum(edge.operation is None for edge in cell.edges) for cell in (normal, reduce)] == [2, 1]


def test_what_leads_nowhere_is_dashed() -> None:
    (cell,) = lay_out(NODES)
    assert [node.kind for node in cell.nodes].count("none") == 2
    assert [edge.kind for edge in cell.edges].count("none") == 3  # into the nodes 3 and 4


def test_the_kinds_of_operations_have_different_colors() -> None:
    kinds = {"sep_conv_3x3": "convolution", "max_pool_3x3": "pooling", "skip_connect": "skip", "Identity": "skip"}
    kinds |= {"none": "none", "zero": "none", "attention": "other", "nonelinear": "other", "": "other"}
    assert {choice: kind_of(choice) for choice in kinds} == kinds
    assert len({COLORS[kind] for kind in kinds.values()}) == 5


def test_names_of_strangers_stay_text() -> None:
    root = ElementTree.fromstring(to_svg(STRANGE))  # noqa: S314 - our own
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg", "style", "g", "path", "rect", "text",
    }  # fmt: skip
    assert printable(HOSTILE) in {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_a_picture_says_in_words_what_it_shows() -> None:
    assert "1 ◄── nor_conv_3x3 ── 0" in to_svg(NB201)


def test_plain_names() -> None:
    assert printable("sep_conv_3x3 é漢") == "sep_conv_3x3 é漢"
    assert printable("\x1b\n\u202e\ud800") == r"\x1b\n\u202e\ud800"
    assert printable("x" * 61) == "x" * 60 + "…"


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".txt", ".TXT"])
def test_text_is_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"cell{suffix}"
    assert draw(NB201, path) == path
    assert path.read_text(encoding="utf-8") == to_text(NB201)


@pytest.mark.parametrize("suffix", SIGNATURES)
@pytest.mark.parametrize("genotype", [NB201, DARTS, STRANGE, Genotype()], ids=["nb201", "darts", "strange", "none"])
def test_pictures(genotype: Genotype, suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"genotype{suffix}"
    assert draw(genotype, path) == path
    assert path.read_bytes().startswith(SIGNATURES[suffix])
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == [path.name]
    assert capfd.readouterr().out == ""


def test_without_matplotlib_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.report.figure.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"archgrad\[plot\]"):
        draw(NB201, tmp_path / "cell.png")
    assert draw(NB201, tmp_path / "cell.svg").exists()


def test_a_genotype_too_large_for_a_picture_is_refused(tmp_path: Path) -> None:
    large = Genotype.of({"a": CellGenotype(tuple(Decision(node, 0, "a") for node in range(1, 1002)))})
    with pytest.raises(UserError, match=r"1001 decisions .*\.txt"):
        draw(large, tmp_path / "cell.svg")
    assert draw(large, tmp_path / "cell.txt").exists()


@pytest.mark.parametrize("name", ["cell.jpg", "cell", "cell.svgz", ".svg", "cell.dot"])
def test_an_unknown_format_names_the_allowed_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"drawing format .*\.svg, \.png, \.pdf, \.txt"):
        draw(NB201, tmp_path / name)
    assert not list(tmp_path.iterdir())
