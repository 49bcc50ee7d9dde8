"""Measure the pages of 1, 10 and 100 runs of 50 epochs: their size, and the time until the first picture.

Needs Chromium. ``python -m benchmarks.pages`` prints the table of docs/pages.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from archgrad.report.page import to_html
from archgrad.report.page.runs import page_of_runs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from page_runs import make_run


def first_picture(path: Path) -> float:
    """Return the seconds from opening a page until its first chart is there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(path.as_uri(), wait_until="commit")
        page.wait_for_selector("#curves svg")
        seconds = time.perf_counter() - began
        browser.close()
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="*", default=(1, 10, 100))
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--no-browser", action="store_true", help="measure sizes only")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for count in given.runs:
            home = Path(name) / str(count)
            runs = [make_run(home / f"{at}", f"method {at % 5}", at // 5, given.epochs) for at in range(count)]
            page = home / "page.html"
            page.write_text(to_html(page_of_runs(runs)), encoding="utf-8")
            seconds = None if given.no_browser else first_picture(page)
            rows.append({"runs": count, "megabytes": page.stat().st_size / 1e6, "seconds": seconds})
            shown = "" if seconds is None else f"{seconds:.2f} s"
            print(f"| {count} | {rows[-1]['megabytes']:.2f} MB | {shown} |")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
