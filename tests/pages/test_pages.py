from __future__ import annotations

import json
import random
import re
import signal
import socket
from pathlib import Path

import pytest
from latencies import additive, write_latencies
from page_runs import HOSTILE, add_epoch, make_fit, make_run, make_training, write_mixture
from starlette.testclient import TestClient

from archgrad.errors import UserError
from archgrad.pages import server
from archgrad.pages.report import page_of, write_report
from archgrad.pages.studies import _scatters, page_of_study
from archgrad.pages.watch import watch_app
from archgrad.report.page import Page, to_html
from archgrad.report.page.records import find_runs, read_run
from archgrad.report.page.runs import page_of_runs
from archgrad.spaces import Cost, Genotype
from archgrad.studies import Study
from archgrad.studies.results import TopArchitecture


def payload_of(html: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_page_is_one_light_file_without_addresses(count: int, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", f"method{seed % 5}", seed, epochs=50) for seed in range(count)]
    html = to_html(page_of_runs(runs))
    assert len(html.encode()) < 2_000_000
    assert "connect-src 'none'" in html
    assert re.findall(r'(?:src|href)="[^"#]', html.partition("<script")[0]) == []


def test_a_page_says_what_the_records_say(tmp_path: Path) -> None:
    page = payload_of(to_html(page_of_runs([make_run(tmp_path / "run", epochs=4)])))
    (run,) = page["runs"]
    assert run["epochs"] == [1, 2, 3, 4]
    assert run["seconds"] == [3, 6, 9, 12]
    assert run["series"]["heldout_accuracy"] == [36, 37, 38, 39]
    assert [len(row) for row in run["shares"]] == [4, 4, 4, 4]
    assert [page["cells"][number]["text"].count("|") for number in run["cells"]] == [8 + 1] * 4
    assert page["measures"][0]["key"] == "oracle_cifar10_test_200ep"


def test_seeds_of_a_method_become_a_mean_with_an_interval(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{seed}", "darts", seed, epochs=2) for seed in range(3)]
    page = payload_of(to_html(page_of_runs(runs)))
    (band,) = page["bands"]["epochs"]["heldout_accuracy"]
    assert band["mean"] == [37, 38]
    assert band["low"][0] == pytest.approx(37 - 4.3027 / 3**0.5, abs=1e-3)  # t of two degrees of freedom, s = 1
    config = runs[0] / "config.toml"
    config.write_text(config.read_text() + "cells = 3\n")
    assert [one["name"] for one in payload_of(to_html(page_of_runs(runs)))["groups"]] == ["darts (cells=3)", "darts"]


def test_names_cannot_end_the_script(tmp_path: Path) -> None:
    html = to_html(page_of_runs([make_run(tmp_path / "run", f"</script>{HOSTILE}")]))
    assert HOSTILE not in html
    assert html.count("</script>") == 3
    assert payload_of(html)["groups"][0]["name"].startswith("</script>")


def test_numbers_that_json_lacks_become_null() -> None:
    assert json.loads(Page("a", "b", tables=(), facts=(("x", float("nan")),)).to_json())["facts"] == [["x", None]]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.toml"):
        page_of_runs([tmp_path])


def test_a_study_without_a_summary_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Study, measure: str | None = None) -> None:
        raise UserError("the run x is damaged; delete it.")

    monkeypatch.setattr(Study, "summaries", fail)
    stored = Path(__file__).parents[2] / "studies" / "results" / "proxy"
    assert page_of_study(stored).verdict == "the run x is damaged; delete it."


def broken(folder: Path, number: int) -> None:
    """Damage a run directory in one of many ways."""
    choose = random.Random(number)  # noqa: S311
    kind = choose.choice(["search", "search", "training", "fit"])
    if kind == "search":
        write_mixture(make_run(folder, epochs=choose.randint(1, 4), finished=choose.random() < 0.5), 4)
    else:
        make_fit(folder) if kind == "fit" else make_training(folder, epochs=1)
    path = folder / choose.choice(
        ["metrics.jsonl", "config.toml", "summary.json", "mixture.json"]
        if kind == "search"
        else ["fit.json" if kind == "fit" else "result.json", "run.json"]
    )
    if choose.random() < 0.5 and path.suffix == ".json" and path.exists():
        text = path.read_text()
        bad = choose.choice(["null", "[]", "{}", '"x"', "1e308", "-1", "true"])
        path.write_text(
            re.sub(r"(?<=: )(?:[\d.]+|\[[^\[\]{}]*\])", lambda at: bad if choose.random() < 0.3 else at[0], text)
        )
        return
    text = path.read_bytes() if path.exists() else b""
    cut = choose.randint(0, len(text))
    junk = choose.choice(
        [b"", b"\xff\xfe", b"[" * 5000, b'{"epoch": 1e999}', b'{"epoch": true}', b"null\n", b'{"epoch": "a"}']
    )
    way = choose.choice(["cut", "junk", "missing", "folder", "values"])
    if way == "values":
        values = choose.choice([None, [], {}, "x", 1e308, -1, True])
        path.write_text(
            json.dumps({"epoch": 1, "seconds": values, "genotype": values, "skips": values, "method": values})
        )
    elif way in ("cut", "junk"):
        path.write_bytes(text[:cut] + junk if way == "junk" else text[:cut])
    else:
        path.unlink(missing_ok=True)
        if way == "folder":
            path.mkdir()


def test_broken_runs_break_no_page(tmp_path: Path) -> None:
    for number in range(200):
        broken(tmp_path / f"run{number}", number)
    app, base = watch_app(tmp_path, token="t")  # noqa: S106
    client = TestClient(app, base_url="http://127.0.0.1:1")
    answer = client.get(base)
    assert answer.status_code == 200
    rows = payload_of(answer.text)["listing"]["rows"]
    assert len(rows) == len(find_runs(tmp_path)) > 130
    for row in rows:
        page = client.get(row["link"].replace("/run/", "/payload/"))
        assert page.status_code == 200, row
        json.loads(page.text)


def test_half_a_line_is_not_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", epochs=2, finished=False)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "tra')
    assert [record["epoch"] for record in read_run(run).records] == [1, 2]


@pytest.fixture
def client(tmp_path: Path) -> tuple[TestClient, Path]:
    make_run(tmp_path / "runs" / "a", epochs=2)
    (tmp_path / "secret.txt").write_text("secret")
    app, base = watch_app(tmp_path / "runs", token="token")  # noqa: S106
    assert base == "/token/"
    return TestClient(app, base_url="http://127.0.0.1:1"), tmp_path


def test_a_page_is_served_under_its_token_only(client: tuple[TestClient, Path]) -> None:
    browser, _ = client
    assert browser.get("/token/").status_code == 200
    for path in ("/", "/other/", "/token", "/payload", "/token/../", "/other/payload"):
        assert browser.get(path, follow_redirects=False).status_code in (307, 404), path


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::1]", ""])
def test_other_hosts_are_refused(client: tuple[TestClient, Path], host: str) -> None:
    assert client[0].get("/token/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("key", ["..", "..%2f..%2fsecret.txt", "%2e%2e", "a", "/etc/passwd", "0" * 16])
def test_no_address_leads_out_of_the_folder(client: tuple[TestClient, Path], key: str) -> None:
    for kind in ("run", "payload"):
        assert "secret" not in client[0].get(f"/token/{kind}/{key}").text.replace("secrets", "")


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_it_is_read_only(client: tuple[TestClient, Path], method: str) -> None:
    assert getattr(client[0], method)("/token/").status_code == 405


def test_a_run_keeps_its_address_while_others_come_and_go(client: tuple[TestClient, Path]) -> None:
    browser, home = client
    (row,) = payload_of(browser.get("/token/").text)["listing"]["rows"]
    make_run(home / "runs" / "0", "gaea", 5)
    assert "darts, seed 0" in browser.get(row["link"]).text
    add_epoch(home / "runs" / "a", 3)
    assert payload_of(browser.get(row["link"]).text)["runs"][0]["epochs"] == [1, 2, 3]


def test_links_are_not_followed(tmp_path: Path) -> None:
    make_run(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    assert find_runs(tmp_path / "runs") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(server, "run_server", lambda app, listening: signal.raise_signal(number))
    before, said = signal.getsignal(signal.SIGTERM), list[str]()
    server.serve(tmp_path, 0, False, said.append)
    assert said[-1] == "stopped."
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_address_answers_as_soon_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "run_server", lambda app, listening: None)

    def connect(line: str) -> None:
        port = re.search(r"127\.0\.0\.1:(\d+)/", line)
        assert port
        socket.create_connection(("127.0.0.1", int(port[1])), timeout=5).close()

    server.serve(tmp_path, 0, False, lambda line: connect(line) if "http" in line else None)


def test_every_edge_has_its_probabilities(tmp_path: Path) -> None:
    write_mixture(make_run(tmp_path / "run", epochs=2), 3)  # one epoch more: of a search that went back
    for number in (1, 2):
        write_mixture(make_run(tmp_path / "stages" / f"stage-{number}", epochs=1), 1)
    make_run(tmp_path / "old", epochs=2)
    run, old = (page_of_runs([tmp_path / name]).runs[0] for name in ("run", "old"))
    assert run.choices[:2] == [("cell", "1<-0", "skip_connect"), ("cell", "1<-0", "nor_conv_1x1")]
    assert [len(row) for row in run.mixture] == [24, 24]
    assert old.mixture == []
    for name in ("config.toml", "metrics.jsonl"):
        (tmp_path / "stages" / name).write_bytes((tmp_path / "old" / name).read_bytes())
    assert len(page_of_runs([tmp_path / "stages"]).runs[0].mixture) == 2


def test_a_fit_has_its_classes_mistakes_rounds_and_curves(tmp_path: Path) -> None:
    page = page_of(make_fit(tmp_path / "fit"))
    assert page.verdict.startswith(
        "ResNet-20 reaches a test accuracy of 90.90 % on 33 images (95 % interval 85.00 to 95.00)"
    )
    assert dict(page.facts)["best constant prediction"] == "33.33 %"
    assert [(one.tested, one.right, one.trained) for one in page.classes] == [(11, 10, 40)] * 3
    assert page.mistakes[0] == (HOSTILE, "class 1", 1)
    assert page.examples[0].name == f"{HOSTILE}/7.png"
    assert [table.title for table in page.tables] == ["Round 1 of 1"]
    assert [one.name for one in page.runs] == ["last training", "search", "round 1: network 1"]
    assert "archgrad fit photos" in page.commands
    many = page_of(make_fit(tmp_path / "many", 60))
    assert (len(many.classes), many.confusion, len(many.mistakes)) == (60, (), 15)


def test_a_training_has_its_seeds_and_the_command_to_repeat_it(tmp_path: Path) -> None:
    page = page_of(make_training(tmp_path / "training"))
    assert page.verdict == "The network reaches a test accuracy of 90.50 ± 0.70 %, mean ± std over 2 seeds."
    assert dict(page.facts)["parameters"] == "1.2 M"
    assert page.tables[0].rows == [("0", "90.00", "9.0"), ("1", "91.00", "9.0")]
    assert page.commands[0].startswith("archgrad train '|")
    assert "--space nasbench201" in page.commands[0]
    assert "--data 'folder:my photos'" in page.commands[0]
    config = tmp_path / "training" / "config.toml"
    config.write_text(config.read_text().replace("nasbench201", "resnet"))
    assert page_of(tmp_path / "training").commands[0].startswith("archgrad train resnet --preset quick")
    (tmp_path / "training" / "result.json").unlink()
    assert page_of(tmp_path / "training").verdict == "The training is at epoch 4 of 4."


def test_a_folder_of_all_kinds_is_a_list(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", epochs=2)
    make_training(tmp_path / "runs" / "b")
    make_fit(tmp_path / "runs" / "c")
    page = payload_of(write_report([tmp_path / "runs"], tmp_path / "all.html").read_text())
    rows = [row["cells"] for row in page["listing"]["rows"]]
    assert [(row[0], row[1], row[2], row[6]) for row in rows] == [
        ("a", "search", "finished", None), ("b", "training", "finished", 90.5), ("c", "fit", "finished", 90.9),
    ]  # fmt: skip
    add_epoch(tmp_path / "runs" / "a", 3, metric="rmse", metric_unit="", metric_direction="lower", heldout_rmse=0.5)
    listing = payload_of(write_report([tmp_path / "runs"], tmp_path / "all.html").read_text())["listing"]
    assert [*listing["columns"][4:7], listing["rows"][0]["cells"][4]] == ["held-out", "in the table (%)", "test", 0.5]
    app, base = watch_app(tmp_path / "runs", token="t")  # noqa: S106
    client = TestClient(app, base_url="http://127.0.0.1:1")
    titles = [
        payload_of(client.get(row["link"]).text)["title"]
        for row in payload_of(client.get(base).text)["listing"]["rows"]
    ]
    assert titles == ["darts, seed 0", "b", "c"]


def test_a_report_is_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", epochs=1)
    with pytest.raises(UserError, match="is a fit, which has a page of its own"):
        write_report([run, make_fit(tmp_path / "fit")], tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"page\.pdf .*\.html"):
        write_report([run], tmp_path / "page.pdf")
    with pytest.raises(UserError, match="give run directories"):
        write_report([tmp_path / "empty"], tmp_path / "page.html")
    assert write_report([run], tmp_path / "page.html").is_file()


def test_the_page_of_a_study_has_latencies_where_a_table_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|nor_conv_1x1~2|"
    top = [TopArchitecture(Genotype.parse(name), Cost(1_000_000, 5), {"cifar10": 87.0}, votes=2, of=3)]
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    assert len(_scatters(top, "sum")) == 1
    write_latencies(tmp_path / "nasbench201" / "latency.csv", [name])
    size, latency = _scatters(top, "sum")
    assert (size.points[0]["x"], latency.x) == (1.0, "milliseconds on sum at the benchmark's size")
    assert latency.points == [{**size.points[0], "x": additive(name)}]
    assert [len(_scatters(top, device)) for device in ("crossed", "raspi4")] == [2, 1]
