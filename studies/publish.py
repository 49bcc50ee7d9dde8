"""Write what the main study has found from its stored results: ``python studies/publish.py``.

``docs/results`` gets ``main.md`` with the tables, ``claims.md`` with what the papers claim, ``doctor.md`` with how
often the doctor was right, ``patient.md``, ``vote.md`` and ``largest.md`` with what patience, votes and larger
operations are worth, ``fits.md`` with fits beside known networks, ``macro.md`` with what is found in chains, and
``latency.md`` with what is found for a device.
``docs/images`` gets their figures, and ``README.md`` the lines between its two marks. Nothing in them is typed by hand.
The tables of NAS-Bench-201 and NAS-Bench-Macro are those under ARCHGRAD_DATA.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from claims import claims_page
from doctor import doctor_page
from fits_page import fits_page
from largest import accuracies as cell_accuracies
from largest import largest_cells, largest_curves, largest_page
from shared import CIFAR10, CIFAR100, HERE, Runs, read_runs, row_of, signed, spread, worse_share
from targets import draw_front, ends_of, latency_page
from votes import Found, votes_page

from archgrad import tables
from archgrad.config.toml import read_toml
from archgrad.report.curves import Line, draw_lines
from archgrad.spaces import Macro
from archgrad.studies.comparisons import decide
from archgrad.studies.curves import anytime_curve
from archgrad.studies.published_results import published
from archgrad.studies.statistics import summarize

PAGE, CLAIMS, FIGURE = Path("docs/results/main.md"), Path("docs/results/claims.md"), Path("docs/images/main.svg")
DOCTOR, PATIENT, README = Path("docs/results/doctor.md"), Path("docs/results/patient.md"), Path("README.md")
MACRO, VOTE = Path("docs/results/macro.md"), Path("docs/results/vote.md")
LARGEST, FITS = Path("docs/results/largest.md"), Path("docs/results/fits.md")
LATENCY, FRONT = Path("docs/results/latency.md"), Path("docs/images/latency.svg")
BEGIN, END = "<!-- written by studies/publish.py -->\n", "<!-- end -->\n"
DRAWN = ("darts", "idarts", "amended", "gaea-simultaneous", "lambda-darts")
"""DARTS and a method of each of the four papers."""
EARLY, EPOCHS = 10, 40
"""The epoch that the end is compared with, and the last one."""
SECONDS = HERE / "results" / "seconds.json"
COLUMNS = (
    "variant", "seeds", f"epoch {EARLY}", "end: CIFAR-10", "worst seed", "CIFAR-100", "worse cells", "skips", "entropy",
    "minutes",
)  # fmt: skip
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
PAGE_TEXT = """\
# The main study

{finished} of {planned} runs are finished. `python studies/publish.py` writes this page from
`studies/results/main`; [studies/README.md](../../studies/README.md) says how the runs are
computed. While a variant has fewer than ten seeds, its row ranks nothing.

{head}
{rows}

Accuracies are those of the found cell in NAS-Bench-201's table after 200 epochs, in the mean over seeds, with the 95 %
interval of the mean from five seeds on. Worse cells: the share of the 4,096 cells without `none` that have a lower
accuracy on CIFAR-10. Skips: of six edges. Entropy: of the mixture, 1 is undecided. Minutes: median of a run on a
machine that was busy with other work, so no measure of speed. `random-search` trains cells for 12 epochs at full size,
as the table simulates it, for 12,000 seconds of a GPU; `random-cells` and `zero-cost` train nothing.

## Longer, and against DARTS

{compared_head}
{compared}

Since epoch {early}: how much the accuracy of the current cell on CIFAR-10 has changed at the end. Against DARTS: the
difference at the end. Both are paired by seed, with the 95 % interval of the mean. p: sign-flip test, after Holm's
correction over all pairs of variants of the study; up to six seeds cannot reach 0.05 in so many pairs. Published: at
the full size of the benchmark, as the papers print it.

![accuracy of the current cell over 40 epochs](../images/main.svg)

## At equal time

All of these searches have the same steps of α; some take much longer for them. Here each has the time of `darts`.

| variant | an epoch, times that of `darts` | epochs in its time | CIFAR-10 then | against DARTS |
|---|---|---|---|---|
{equal_time}

Seconds of an epoch: a few steps on one idle core (`python studies/seconds.py studies/main.toml -o
studies/results/seconds.json`), without measurements. The cell is that at which the search of 40 epochs stood then; a
search that is planned for so many epochs would let its learning rate fall earlier. Faster variants are shown at their
end.
"""
PATIENT_TEXT = """\
# Is patience worth it?

`gaea-patient` is `gaea-simultaneous` whose α waits for 30 % of the epochs, and whose rate then falls to zero by a
cosine; the sum of the rates stays (`--set schedule.warmup_share=0.3 --set schedule.anneal=true`). Both searched with
the size and the seeds of [the main study](main.md). The two settings were fixed before, on other seeds
(`studies/patient.toml`). `python studies/publish.py` writes this page from `studies/results`.

{head}
{rows}

The columns are those of the main study. The end of `gaea-patient` minus that of `gaea-simultaneous`, paired by seed,
with the 95 % interval of the mean: **{cifar10} points on CIFAR-10**, {cifar100} on CIFAR-100 ({seeds} seeds).
The ends on CIFAR-10, seed by seed:

| seed | {numbers} |
|---|{lines}
| `gaea-simultaneous` | {before} |
| `gaea-patient` | {after} |

So {verdict}. Not shown: other data, other sizes, and each of the two settings alone.
"""
MACRO_TEXT = """\
# Chains

Which methods find good networks in NAS-Bench-Macro, where each of eight layers is decided alone? {finished} of the
{planned} runs of `studies/macro.toml` are finished: 4,000 images of CIFAR-10 at 16×16 pixels, 8 channels, 40 epochs,
chosen before any of them. `python studies/publish.py` writes this page from `studies/results/macro`.

| variant | seeds | epoch {early} | end | worst seed | worse networks | skips | against `darts` | against the mean |
|---|---|---|---|---|---|---|---|---|
{rows}

Accuracies are those of the found network in the benchmark's table, the mean of three trainings, with the 95 % interval
of the mean over seeds. Worse networks: the share of all 6,561 that have a lower accuracy; skips: of
eight layers; at the three strides a skip is a 1×1 convolution. Against `darts`: the difference in points, paired by
seed, with the 95 % interval of the mean. Against the mean: the same from {mean:.2f}, the mean of all networks, which a
network drawn without a search, as those of `random-cells`, has in expectation; the median is {median:.2f}. Λ-DARTS is
not here, because no two layers share a decision.

On two levels, where α has images of its own, skips win in chains too: with DARTS and, less, with iDARTS and GAEA. The
searches on one level, and Amended-DARTS, which has two, end without them and above a random network. Five seeds and one
size of supernet: which of these is best is not shown.
"""


def early_of(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the record of the early epoch, if α has moved by then; a search without gradients has no epochs."""
    return [one for one in records[EARLY - 1 : EARLY] if CIFAR10 in one and "queries" not in one]


def row(variant: str, runs: Runs, worse: Callable[[float], float]) -> str:
    """Return the line of a variant."""
    ends = [records[-1] for _, records in sorted(runs.items())]
    accuracies = [one[CIFAR10] for one in ends]
    early = [one for records in runs.values() for one in early_of(records)]
    entropies = [one["entropy"] / one["entropy_max"] for one in ends if one.get("entropy_max")]
    cells = (
        f"`{variant}`",
        f"{len(runs)}",
        f"{mean(one[CIFAR10] for one in early):.2f}" if early else "–",
        spread(accuracies),
        f"{min(accuracies):.2f}",
        f"{mean(one[CIFAR100] for one in ends):.2f}",
        f"{mean(map(worse, accuracies)):.1f} %",
        f"{mean(one['skips'] for one in ends):.1f}" if "skips" in ends[0] else "–",
        f"{mean(entropies):.2f}" if entropies else "–",
        f"{median(sum(one.get('seconds', 0.0) for one in records) for records in runs.values()) / 60:.0f}",
    )
    return row_of(cells)


def compared(found: dict[str, Runs]) -> list[str]:
    """Return a line for each variant: what its length changed, and its difference from DARTS."""
    ends = {variant: {seed: runs[seed][-1][CIFAR10] for seed in sorted(runs)} for variant, runs in found.items()}
    pairs = {frozenset((pair.first, pair.second)): pair for pair in decide(ends).pairs}
    lines = []
    for variant, runs in found.items():
        change = [ends[variant][seed] - one[CIFAR10] for seed in sorted(runs) for one in early_of(runs[seed])]
        shared = [seed for seed in ends[variant] if seed in ends["darts"]]
        ahead = [ends[variant][seed] - ends["darts"][seed] for seed in shared] if variant != "darts" else []
        pair = pairs.get(frozenset((variant, "darts")))
        known = published(variant, "nasbench201", "cifar10", searched_on="cifar10")
        cells = (
            f"`{variant}`",
            signed(change) if change else "–",
            signed(ahead) if ahead else "–",
            f"{pair.p_holm:.2g}" if ahead and pair is not None and pair.p_holm is not None else "–",
            str(known[0]) if known else "–",
        )
        lines.append(row_of(cells))
    return lines


def front(found: dict[str, Runs]) -> str:
    """Return the table of the README: DARTS and a method of each of the four papers."""
    lines = [f"| method | seeds | epoch {EARLY} | the end, epoch 40 | skip connections |", "|---|---|---|---|---|"]
    for variant in (one for one in DRAWN if one in found):
        runs = found[variant]
        accuracies = [spread([records[at][CIFAR10] for records in runs.values()]) for at in (EARLY - 1, -1)]
        skips = mean(records[-1]["skips"] for records in runs.values())
        lines.append(f"| `{variant}` | {len(runs)} | {' | '.join(accuracies)} | {skips:.1f} of 6 |")
    cells = [largest_cells(HERE / "results", epoch) for epoch in (EARLY, 0)]
    own = " | ".join(spread([cell_accuracies(cell)[0] for cell in each]) for each in cells)
    skips = mean(cell.count("skip_connect") for cell in cells[1])
    lines.append(f"| `gaea-largest`, our default | {len(cells[1])} | {own} | {skips:.1f} of 6 |")
    return "\n".join(lines) + "\n"


def page(found: dict[str, Runs]) -> str:
    """Return the page."""
    planned = read_toml(HERE / "main.toml")
    worse, finished = worse_share(), sum(map(len, found.values()))
    rows = [row(variant, runs, worse) for variant, runs in found.items()]
    return PAGE_TEXT.format(
        finished=finished,
        planned=10 * len(planned["variant"]),
        head=HEAD,
        rows="\n".join(rows),
        compared_head="| variant | since epoch 10 | against DARTS | p | published |\n|---|---|---|---|---|",
        compared="\n".join(compared(found)),
        early=EARLY,
        equal_time="\n".join(equal_time(found)),
    )


def equal_time(found: dict[str, Runs]) -> list[str]:
    """Return a line for each variant whose epochs were timed: its cell when it has had the time of DARTS."""
    seconds = json.loads(SECONDS.read_text(encoding="utf-8"))
    ends = {seed: records[-1][CIFAR10] for seed, records in found["darts"].items()}
    lines = []
    for variant, runs in found.items():
        if variant in seconds:
            ratio = seconds[variant] / seconds["darts"]
            epochs = min(int(EPOCHS / ratio), EPOCHS)
            then = {seed: runs[seed][epochs - 1][CIFAR10] for seed in sorted(runs)}
            ahead = [value - ends[seed] for seed, value in then.items() if seed in ends and variant != "darts"]
            cells = (
                f"`{variant}`",
                f"{ratio:.2f}",
                f"{epochs}",
                spread([*then.values()]),
                signed(ahead) if ahead else "–",
            )
            lines.append(row_of(cells))
    return lines


def patient_page(before: Runs, after: Runs) -> str:
    """Return the page about ``gaea-patient``, beside ``gaea-simultaneous``."""
    worse, seeds = worse_share(), sorted(set(before) & set(after))
    ends = [{seed: runs[seed][-1] for seed in seeds} for runs in (before, after)]

    def ahead(measure: str) -> str:
        return signed([ends[1][seed][measure] - ends[0][seed][measure] for seed in seeds])

    each = [" | ".join(f"{one[CIFAR10]:.2f}" for one in own.values()) for own in ends]
    return PATIENT_TEXT.format(
        head=HEAD,
        rows="\n".join([row("gaea-simultaneous", before, worse), row("gaea-patient", after, worse)]),
        verdict=_verdict([ends[1][seed][CIFAR10] - ends[0][seed][CIFAR10] for seed in seeds]),
        cifar10=ahead(CIFAR10),
        cifar100=ahead(CIFAR100),
        seeds=len(seeds),
        numbers=" | ".join(map(str, seeds)),
        lines="---|" * len(seeds),
        before=each[0],
        after=each[1],
    )


def macro_page(found: dict[str, Runs]) -> str:
    """Return the page about chains."""
    planned, measure = read_toml(HERE / "macro.toml"), "oracle_cifar10_test_50ep"
    every = tables.tables_for("macro")[0].values(Macro(), measure) or ()
    ends = {variant: {seed: runs[seed][-1][measure] for seed in sorted(runs)} for variant, runs in found.items()}
    rows = []
    for variant, runs in found.items():
        last, records = list(ends[variant].values()), list(runs.values())
        early = [one[EARLY - 1][measure] for one in records if len(one) >= EARLY]
        skips = [one[-1]["skips"] for one in records if "skips" in one[-1]]
        shared = sorted(ends[variant].keys() & ends["darts"].keys()) if variant != "darts" else []
        cells = (
            f"`{variant}`",
            f"{len(runs)}",
            f"{mean(early):.2f}" if early else "–",
            spread(last),
            f"{min(last):.2f}",
            f"{mean(100 * sum(one < value for one in every) / len(every) for value in last):.1f} %",
            f"{mean(skips):.1f}" if skips else "–",
            signed([ends[variant][seed] - ends["darts"][seed] for seed in shared]) if shared else "–",
            signed([value - mean(every) for value in last]),
        )
        rows.append(row_of(cells))
    return MACRO_TEXT.format(
        finished=sum(map(len, found.values())),
        planned=5 * len(planned["variant"]),
        early=EARLY,
        rows="\n".join(rows),
        mean=mean(every),
        median=median(every),
    )


def vote_page() -> str:
    """Return the page about searches that vote."""
    own, twice = (read_runs(study).get("gaea-simultaneous", {}) for study in ("vote", "vote-twice"))
    home = HERE / "results" / "vote" / "nasbench201-cifar10"
    folders = [home / f"gaea-simultaneous-seed{seed}" for seed in sorted(own)]
    ends, others = (
        [Found(runs[seed][-1][CIFAR10], runs[seed][-1][CIFAR100]) for seed in sorted(runs)] for runs in (own, twice)
    )
    return votes_page(folders, ends, others, worse_share())


def _verdict(differences: Sequence[float]) -> str:
    interval = summarize(differences).interval
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "it is not shown to be better or worse, and is no recipe"
    return "it is better here" if interval[0] > 0 else "it is worse here"


def draw(found: dict[str, Runs], path: Path) -> None:
    """Draw the accuracy of the current cell over the epochs."""
    every = {
        variant: {seed: [(one["epoch"], one[CIFAR10]) for one in records] for seed, records in runs.items()}
        for variant, runs in found.items()
        if variant in DRAWN
    }
    every["gaea-largest"] = dict(enumerate(largest_curves(HERE / "results", EPOCHS)))
    lines = {}
    for variant in (*DRAWN, "gaea-largest"):
        points = anytime_curve(every.get(variant, {}))
        if points:
            bands = [point.band or (point.mean, point.mean) for point in points]
            count = len(every[variant])
            low, high = ([band[end] for band in bands] for end in (0, 1))
            label = f"{variant} ({count} {'seed' if count == 1 else 'seeds'})"
            lines[label] = Line([point.x for point in points], [point.mean for point in points], low, high)
    axes = ("epoch", "accuracy of the current cell, CIFAR-10 (%)")
    draw_lines(lines, axes, "line: mean over seeds, band: 95 % interval of the mean", path)


def main() -> None:
    """Write page, figure and the lines of the README below the given folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=HERE.parent)
    to, found, chains = parser.parse_args().to, read_runs("main"), read_runs("macro")
    (to / PAGE).write_text(page(found), encoding="utf-8")
    (to / CLAIMS).write_text(claims_page(found, chains), encoding="utf-8")
    (to / DOCTOR).write_text(
        doctor_page(found, read_runs("proxy"), worse_share(), read_runs("switch").get("darts-switch", {})),
        encoding="utf-8",
    )
    patient = patient_page(found["gaea-simultaneous"], read_runs("patient")["gaea-patient"])
    (to / PATIENT).write_text(patient, encoding="utf-8")
    (to / MACRO).write_text(macro_page(chains), encoding="utf-8")
    (to / VOTE).write_text(vote_page(), encoding="utf-8")
    (to / LARGEST).write_text(largest_page(HERE / "results"), encoding="utf-8")
    (to / FITS).write_text(fits_page(HERE / "results" / "fits"), encoding="utf-8")
    ends = ends_of(read_runs("latency"))
    (to / LATENCY).write_text(latency_page(ends), encoding="utf-8")
    draw_front(ends, to / FRONT)
    draw(found, to / FIGURE)
    before, _, rest = (HERE.parent / README).read_text(encoding="utf-8").partition(BEGIN)
    (to / README).write_text(before + BEGIN + front(found) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
