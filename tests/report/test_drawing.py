from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from archgrad.errors import UserError
from archgrad.report import draw, graphviz_available, to_dot, to_text
from archgrad.report.wiring import kind_of, printable
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

NB201 = Genotype.parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|+|skip_connect~0|nor_conv_1x1~1|avg_pool_3x3~2|")
EDGES = "('sep_conv_3x3', 0), ('skip_connect', 1), ('dil_conv_5x5', 2), ('max_pool_3x3', 0)"
DARTS = Genotype.parse(f"Genotype(normal=[{EDGES}], normal_concat=[2, 3], reduce=[{EDGES}], reduce_concat=[3])")
HOSTILE = '"];\\N\\"<b>&amp;\x1b[2J\n\u202e\ud800 }'
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
REAL_DOT = shutil.which("dot")
SIGNATURES = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}
FAKE = f"""#!{sys.executable}
import pathlib, sys
folder = pathlib.Path(__file__).parent
(folder / "arguments").write_text(" ".join(sys.argv[1:]))
(folder / "source").write_bytes(sys.stdin.buffer.read())
if (folder / "broken").exists():
    sys.exit("no such plugin")
kind = [word for word in sys.argv if word.startswith("-T")][0][2:]
sys.stdout.buffer.write({{"svg": b"<?xml", "png": b"\\x89PNG", "pdf": b"%PDF"}}[kind] + b" fake")
"""


@pytest.fixture
def fake_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program ``dot``, alone on the search path, that writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dot").write_text(FAKE)
    (folder / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def no_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


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


NODES = Genotype.parse("[conv3x3~0][maxpool3x3~1][conv1x1~0][conv3x3~1,3][maxpool3x3~0,2][output~0,5]")


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


def test_dot_of_operations_on_nodes() -> None:
    source = to_dot(NODES)
    assert source.count("->") == 9
    assert "b0_n0 -> b0_n6;" in source
    assert source.count("style=dashed") == 3  # into the nodes 3 and 4, which lead nowhere
    assert all(f"b0_n{node} [label=" in source for node in range(7))


def test_text_is_printable_utf8_with_short_lines() -> None:
    lines = to_text(STRANGE).splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 160
    "\n".join(lines).encode()


# --- DOT ----------------------------------------------------------------------------------------------------------


def test_dot_of_a_nasbench201_cell() -> None:
    source = to_dot(NB201)
    assert source.startswith("digraph genotype {")
    assert source.count("subgraph cluster_") == 1
    assert "rankdir=LR" in source
    assert 'label="cell"' in source
    assert re.findall(r"b0_n\d \[label=(\S+?)[,\]]", source) == [r'"0\ninput"', '"1"', '"2"', r'"3\noutput"']
    for index, decision in enumerate(NB201.decisions):
        assert f'b0_e{index} [label="{decision.choice}"' in source
        assert f"b0_n{decision.source} -> b0_e{index}:w" in source
        assert f"b0_e{index}:e -> b0_n{decision.target} " in source
    assert source.count("style=dashed") == 2


def test_dot_of_a_darts_genotype() -> None:
    source = to_dot(DARTS)
    assert source.count("subgraph cluster_") == 2
    assert source.index('label="reduce"') < source.index('label="normal"')
    for block in (0, 1):
        assert f"b{block}_n0 [label=<<I>c</I><SUB>k-2</SUB>>" in source
        assert f"b{block}_n1 [label=<<I>c</I><SUB>k-1</SUB>>" in source
        assert f"b{block}_out [label=<<I>c</I><SUB>k</SUB>>" in source
        assert f"b{block}_n3 -> b{block}_out" in source
    assert "b0_n2 -> b0_out" in source
    assert "b1_n2 -> b1_out" not in source


def test_dot_puts_operations_without_a_source_on_their_nodes() -> None:
    source = to_dot(STRANGE)
    assert r'b0_n0 [label="0\nmbconv_3x3"' in source
    assert "b0_n0 -> b0_n1 [style=invis]" in source
    assert r'b2_n1 [label="1\nconv"' in source


def test_the_kinds_of_operations_have_different_colors() -> None:
    kinds = {"sep_conv_3x3": "convolution", "max_pool_3x3": "pooling", "skip_connect": "skip", "Identity": "skip"}
    kinds |= {"none": "none", "zero": "none", "attention": "other", "nonelinear": "other", "": "other"}
    assert {choice: kind_of(choice) for choice in kinds} == kinds
    cell = CellGenotype(tuple(Decision(1, 0, choice) for choice in kinds))
    colors = re.findall(r"label.*fillcolor=\"(#\w+)\", fontsize", to_dot(Genotype.of({"a": cell})))
    assert len(set(colors)) == 5


def test_names_of_strangers_stay_inside_their_labels() -> None:
    unquoted = re.sub(r'"(?:[^"\\]|\\.)*"', "", to_dot(STRANGE))
    assert "<b>" not in unquoted
    assert "];" in unquoted
    assert unquoted.count("{") == unquoted.count("}") == 1 + len(STRANGE.blocks)
    assert to_dot(STRANGE).replace("\n", "").isprintable()
    assert r"\N" not in to_dot(STRANGE).replace(r"\\N", "")


def test_plain_names() -> None:
    assert printable("sep_conv_3x3 é漢") == "sep_conv_3x3 é漢"
    assert printable("\x1b\n\u202e\ud800") == r"\x1b\n\u202e\ud800"
    assert printable("x" * 61) == "x" * 60 + "…"


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".txt", ".TXT"])
@pytest.mark.usefixtures("no_dot")
def test_text_and_source_need_no_program(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"cell{suffix}"
    assert draw(NB201, path) == path
    expected = to_text(NB201) if suffix.lower() == ".txt" else to_dot(NB201)
    assert path.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("suffix", SIGNATURES)
@pytest.mark.parametrize("genotype", [NB201, DARTS, STRANGE, Genotype()], ids=["nb201", "darts", "strange", "none"])
@pytest.mark.parametrize("program", ["fake", *(["real"] if REAL_DOT else [])])
def test_pictures(
    program: str,
    genotype: Genotype,
    suffix: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if program == "fake":
        request.getfixturevalue("fake_dot")
    assert graphviz_available()
    path = tmp_path / f"genotype{suffix}"
    assert draw(genotype, path) == path
    assert path.read_bytes().startswith(SIGNATURES[suffix])
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == [path.name]
    assert capfd.readouterr().out == ""


def test_the_program_gets_the_source_and_bitmaps_are_sharp(fake_dot: Path, tmp_path: Path) -> None:
    draw(NB201, tmp_path / "cell.SVG")
    assert "-Tsvg" in (fake_dot / "arguments").read_text()
    assert (fake_dot / "source").read_text(encoding="utf-8").strip() == to_dot(NB201).strip()
    draw(NB201, tmp_path / "cell.png")
    assert "dpi=200" in (fake_dot / "source").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", SIGNATURES)
@pytest.mark.usefixtures("no_dot")
def test_without_the_program_a_text_drawing_takes_its_place(suffix: str, tmp_path: Path) -> None:
    assert not graphviz_available()
    path = tmp_path / f"cell{suffix}"
    assert draw(NB201, path) == tmp_path / "cell.txt"
    assert (tmp_path / "cell.txt").read_text(encoding="utf-8") == to_text(NB201)
    assert not path.exists()


@pytest.mark.usefixtures("fake_dot")
def test_without_the_python_package_a_text_drawing_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("archgrad.report.drawing.find_spec", lambda name: None if name == "graphviz" else real(name))
    assert not graphviz_available()
    assert draw(NB201, tmp_path / "cell.svg").name == "cell.txt"


def test_a_program_that_fails_is_told_and_changes_nothing(fake_dot: Path, tmp_path: Path) -> None:
    (fake_dot / "broken").touch()
    path = tmp_path / "cell.svg"
    path.write_text("old")
    with pytest.raises(UserError, match=r"svg .*no such plugin.*'dot -Tsvg'"):
        draw(NB201, path)
    assert path.read_text() == "old"


def test_a_program_that_cannot_start_is_told(fake_dot: Path, tmp_path: Path) -> None:
    (fake_dot / "dot").write_text("#!/absent/interpreter\n")
    with pytest.raises(UserError, match="svg"):
        draw(NB201, tmp_path / "cell.svg")


@pytest.mark.usefixtures("fake_dot")
def test_a_genotype_too_large_to_lay_out_is_refused(tmp_path: Path) -> None:
    large = Genotype.of({"a": CellGenotype(tuple(Decision(node, 0, "a") for node in range(1, 1002)))})
    with pytest.raises(UserError, match=r"1001 decisions is too large .*\.txt or \.dot"):
        draw(large, tmp_path / "cell.svg")
    assert draw(large, tmp_path / "cell.dot").exists()


@pytest.mark.parametrize("name", ["cell.jpg", "cell", "cell.svgz", ".svg"])
def test_an_unknown_format_names_the_allowed_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"unknown drawing format .*Choose from: \.svg, \.png, \.pdf, \.dot, \.gv, \.txt"
    ):
        draw(NB201, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_importing_does_not_load_graphviz() -> None:
    program = "import sys, archgrad.report; sys.exit('graphviz' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
