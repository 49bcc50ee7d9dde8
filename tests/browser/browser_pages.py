"""The pages in a real browser: `make test-browser`. ARCHGRAD_SCREENSHOTS=FOLDER keeps pictures of them."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from page_runs import HOSTILE, add_epoch, make_fit, make_run, make_training, write_mixture
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from archgrad.pages.report import page_of
from archgrad.pages.studies import page_of_study
from archgrad.pages.watch import HOST, watch_app
from archgrad.report.page import to_html
from archgrad.report.page.runs import page_of_runs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = {"width": 360, "height": 740}
PAGES = ("run", "runs", "hostile", "study", "training", "fit", "many")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "there is no Chromium; `make test-browser` installs it with Debian's packages"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails its test if it prints an error, or asks for anything but itself."""
    problems: list[str] = []
    opened = browser.new_page()

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    def see(request: Request) -> None:
        if not re.match(rf"file://|data:|http://{re.escape(HOST)}:", request.url):
            problems.append(f"asked for {request.url}")

    opened.on("console", hear)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", see)
    yield opened
    opened.close()
    assert problems == []


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages in files: of one run, of several, of a training, of fits with few and with many classes, of a study."""
    home = tmp_path_factory.mktemp("pages")
    runs = [make_run(home / f"{method}-{seed}", method, seed) for method in ("darts", "gaea") for seed in (0, 1)]
    pages = {"run": runs[:1], "runs": runs, "hostile": [make_run(home / "hostile", HOSTILE)]}
    stored = Path(__file__).parents[2] / "studies" / "results" / "proxy"
    write_mixture(runs[0], 10)
    whole = {
        "study": page_of_study(stored), "training": page_of(make_training(home / "training")),
        "fit": page_of(make_fit(home / "fit")), "many": page_of(make_fit(home / "many", 60)),
    }  # fmt: skip
    for name, found in whole.items():
        (home / f"{name}.html").write_text(to_html(found), encoding="utf-8")
    for name, folders in pages.items():
        (home / f"{name}.html").write_text(to_html(page_of_runs(folders)), encoding="utf-8")
    return {name: home / f"{name}.html" for name in (*pages, *whole)}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Watch a folder, and tell the address of its first page."""
    app, path = watch_app(folder, every=0.05)
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    yield f"http://{HOST}:{server.servers[0].sockets[0].getsockname()[1]}{path}"
    server.force_exit = server.should_exit = True
    thread.join()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder of runs that is watched, and the address of its first page."""
    make_run(tmp_path / "first", epochs=3, finished=False)
    make_run(tmp_path / HOSTILE.replace("/", ""), "gaea", 1)
    with serving(tmp_path) as address:
        yield tmp_path, address


def test_a_run_has_curves_a_heat_map_and_its_cell(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["run"].as_uri())
    expect(page.locator("h1")).to_have_text("darts, seed 0")
    expect(page.locator(".verdict")).to_contain_text("diagnosis: healthy")
    assert page.locator("#curves figure g[data-mark=line]").count() == 1
    assert page.locator("#health figure").count() >= 4
    assert page.locator("#run figure rect").count() >= 40
    expect(page.locator("#evolving-cell svg.cell")).to_be_visible()


def test_a_study_has_bands_tables_and_collapsed_runs(page: Page, written: dict[str, Path]) -> None:
    page.set_viewport_size({"width": 1100, "height": 1250})
    page.goto(written["study"].as_uri())
    expect(page.locator(".verdict")).to_contain_text("No winner")
    assert page.locator("#curves figure g[data-mark=area] path").count() == 3
    expect(page.locator("#collapse figure svg")).to_be_visible()
    assert page.locator("#list-rows tr").count() == 15
    assert page.get_by_role("heading", name="All pairs").count() == 1
    if folder := os.environ.get("ARCHGRAD_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "page-study.png")


def test_every_edge_or_their_mean_can_be_seen(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["run"].as_uri())
    assert page.locator("#mixture figure g[data-mark=cell] rect").count() == 6 * 4 * 10
    page.get_by_label("edges").select_option("mean of all edges")
    expect(page.locator("#mixture figure g[data-mark=cell] rect")).to_have_count(4 * 10)
    page.goto(written["runs"].as_uri())  # a run without that file
    page.locator("#run select").first.select_option("darts, seed 1")
    expect(page.locator("#mixture figcaption")).to_have_text("mean probability of each operation, by epoch")


def test_a_fit_shows_its_classes_mistakes_and_curves(page: Page, written: dict[str, Path]) -> None:
    page.set_viewport_size({"width": 1100, "height": 1250})
    page.goto(written["fit"].as_uri())
    expect(page.locator(".verdict")).to_contain_text("reaches a test accuracy of 90.90 % on 33 images")
    assert page.locator("#classes tbody tr").count() == 3
    expect(page.locator("#mistakes figure svg")).to_be_visible()
    expect(page.locator("#mistakes tbody th").first).to_have_text(HOSTILE)
    expect(page.locator("#examples figcaption")).to_contain_text("/7.png")
    assert page.locator("img").count() == 1  # the example
    assert page.locator("#curves figure g[data-mark=line]").count() == 3
    assert page.title() != "broken"
    expect(page.locator("#run #mixture svg").last).to_be_visible()


def test_many_classes_unfold(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["many"].as_uri())
    assert page.locator("#classes tbody tr").count() == 15
    page.get_by_role("button", name="Show all 60 classes").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#classes tbody tr")).to_have_count(60)
    assert page.evaluate("document.activeElement.id") == "every-class"
    assert page.locator("#mistakes figure").count() == 0
    assert page.locator("#mistakes tbody tr").count() == 15


def test_a_training_has_a_mean_over_seeds(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["training"].as_uri())
    expect(page.locator(".verdict")).to_contain_text("90.50 ± 0.70 %")
    assert page.locator("#curves figure g[data-mark=area] path").count() == 1
    expect(page.locator("#commands")).to_contain_text("archgrad train")


def test_runs_of_a_method_share_a_color_and_can_be_hidden(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["runs"].as_uri())
    lines = page.locator("#curves figure g[data-mark=line]")
    assert lines.count() == 2  # the mean of each method
    page.get_by_label("gaea", exact=True).uncheck()
    expect(lines).to_have_count(1)
    page.get_by_label("measure").select_option(label="entropy (nats)")
    expect(page.locator("#curves figcaption")).to_have_text("entropy (nats)")
    page.locator("#curves select").nth(1).select_option("seconds")
    assert page.locator("#curves figure svg").get_attribute("aria-label").startswith("entropy (nats) over seconds")


def test_the_slider_moves_the_cell(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["run"].as_uri())
    before = page.locator("#evolving-cell svg").inner_html()
    page.get_by_label("epoch of the drawn cell").fill("0")
    expect(page.locator("#cell-epoch")).to_contain_text("epoch 1 of 10")
    assert page.locator("#evolving-cell svg").inner_html() != before


def test_the_cell_plays(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["run"].as_uri())
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator("#cell-epoch")).to_contain_text("epoch 10 of 10", timeout=20_000)
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_everything_is_reached_by_keyboard(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["run"].as_uri())
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"SELECT", "cell-play", "cell-slider"} <= set(reached)
    page.locator("#cell-slider").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#cell-epoch")).to_contain_text("epoch 8 of 10")
    assert page.evaluate("document.activeElement.id") == "cell-slider"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barriers(page: Page, written: dict[str, Path], scheme: str, name: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(written[name].as_uri())
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found] == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_the_page_without_scrolling_sideways(page: Page, written: dict[str, Path], name: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(written[name].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_page_can_be_printed(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["runs"].as_uri())
    page.emulate_media(media="print")
    expect(page.locator("#curves figure svg").first).to_be_visible()
    expect(page.locator("#curves .controls")).to_be_hidden()


def test_a_name_is_text_and_runs_nothing(page: Page, written: dict[str, Path]) -> None:
    page.goto(written["hostile"].as_uri())
    expect(page.locator("h1")).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0
    assert page.title() != "broken"


def test_news_arrive_on_a_live_page(page: Page, served: tuple[Path, str]) -> None:
    folder, address = served
    page.goto(address)
    expect(page.locator(".verdict")).to_contain_text("1 of 2 runs are finished")
    page.get_by_label("filter").fill("first")
    expect(page.locator("#list-rows tr")).to_have_count(1)
    page.get_by_role("link", name="first").click()
    expect(page.locator(".verdict")).to_contain_text("at epoch 3 of 3")
    page.get_by_label("epoch of the drawn cell").fill("0")
    add_epoch(folder / "first", 4)
    expect(page.locator(".verdict")).to_contain_text("at epoch 4 of 3")
    expect(page.locator("#cell-epoch")).to_contain_text("epoch 1 of 4")  # the slider stays where it was
    (folder / "first" / "metrics.jsonl").write_text("half a li")
    expect(page.locator(".verdict")).to_contain_text("no epoch is finished yet")
    shutil.rmtree(folder / "first")
    expect(page.locator(".verdict")).to_contain_text("There is no such run")
    page.close()  # before the server


def test_the_list_is_sorted_by_its_heads_and_names_are_text(page: Page, served: tuple[Path, str]) -> None:
    _, address = served
    page.goto(address)
    page.get_by_role("button", name="epoch").click()
    expect(page.locator("#list-rows th").first).to_have_text("first")
    page.get_by_role("button", name="epoch").click()
    expect(page.locator("#list-rows th").first).to_contain_text("<img")
    assert page.locator("img").count() == 0
    assert Axe().run(page).response["violations"] == []
    page.close()


def test_a_thousand_runs_are_listed_filtered_and_sorted(page: Page, tmp_path: Path) -> None:
    for number in range(998):
        make_run(tmp_path / f"run-{number:04}", seed=number, epochs=1)
    make_training(tmp_path / "training")
    make_fit(tmp_path / "fit")
    with serving(tmp_path) as address:
        page.goto(address)
        expect(page.locator(".verdict")).to_have_text("1000 of 1000 runs are finished.")
        expect(page.locator("#list-rows tr")).to_have_count(1000)
        page.get_by_role("button", name="test (%)").click()
        page.get_by_role("button", name="test (%)").click()
        expect(page.locator("#list-rows th").first).to_have_text("fit")
        page.get_by_label("filter").fill("run-099")
        expect(page.locator("#list-rows tr")).to_have_count(8)
        page.get_by_label("filter").fill("training")
        page.get_by_role("link", name="training").click()
        expect(page.locator(".verdict")).to_contain_text("90.50 ± 0.70 %")
        page.close()
