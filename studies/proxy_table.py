"""Print how DARTS fares in each size of ``proxy.toml``: ``python studies/proxy_table.py``."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

RUNS = Path(__file__).parent / "results" / "proxy" / "nasbench201-cifar10"
ACCURACY = "oracle_cifar10_test_200ep"


def main() -> None:
    """Compare each run at a quarter of its epochs with its end."""
    sizes = defaultdict(list)
    for path in sorted(RUNS.glob("*/metrics.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        sizes[path.parent.name.rpartition("-seed")[0]].append((records[len(records) // 4 - 1], records[-1]))
    for size, runs in sizes.items():
        accuracy, skips = (
            tuple(mean(run[when][name] for run in runs) for when in (0, 1)) for name in (ACCURACY, "skips")
        )
        worse = sum(end[ACCURACY] < quarter[ACCURACY] for quarter, end in runs)
        more = sum(end["skips"] > quarter["skips"] for quarter, end in runs)
        print(
            f"{size}: accuracy {accuracy[0]:.2f} → {accuracy[1]:.2f}, skips {skips[0]:.1f} → {skips[1]:.1f}, "
            f"worse in {worse} of {len(runs)}, more skips in {more} of {len(runs)}"
        )


if __name__ == "__main__":
    main()
