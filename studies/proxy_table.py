"""Print how DARTS fares in each size of ``proxy.toml``: ``python studies/proxy_table.py``."""

from __future__ import annotations

from statistics import mean

from shared import CIFAR10, read_runs


def main() -> None:
    """Compare each run at a quarter of its epochs with its end."""
    for size, found in read_runs("proxy").items():
        runs = [(records[len(records) // 4 - 1], records[-1]) for records in found.values()]
        accuracy, skips = (
            tuple(mean(run[when][name] for run in runs) for when in (0, 1)) for name in (CIFAR10, "skips")
        )
        worse = sum(end[CIFAR10] < quarter[CIFAR10] for quarter, end in runs)
        more = sum(end["skips"] > quarter["skips"] for quarter, end in runs)
        print(
            f"{size}: accuracy {accuracy[0]:.2f} → {accuracy[1]:.2f}, skips {skips[0]:.1f} → {skips[1]:.1f}, "
            f"worse in {worse} of {len(runs)}, more skips in {more} of {len(runs)}"
        )


if __name__ == "__main__":
    main()
