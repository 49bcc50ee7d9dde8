from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Forked
from listening import Event, SearchStarted, StepFinished, listening
from same_bits import dying_at

import archgrad as ag
from archgrad.cli import main
from archgrad.errors import UserError
from archgrad.loop import Checkpoints, RunFolder, SearchResult
from archgrad.loop.checkpoint import RunIdentity
from archgrad.regularizers import Regularizer

DATA = ag.data.digits(limit=64)
SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
IDENTITY = RunIdentity.of(space="toy", seed=0)


def content(number: int) -> dict[str, Any]:
    """What a small search would save."""
    generator = torch.Generator().manual_seed(number)
    weights = {"w": torch.randn(5, 3, generator=generator), "half": torch.ones(2, dtype=torch.bfloat16)}
    return {
        "number": number,
        "weights": weights,
        "empty": torch.zeros(0),
        "count": torch.tensor(3),
        "none": [None, 0.1],
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    return torch.equal(one, other) and one.dtype == other.dtype if isinstance(one, torch.Tensor) else one == other


@pytest.fixture
def two(tmp_path: Path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(content(1), IDENTITY)
    checkpoints.save(content(2), IDENTITY)
    return checkpoints


def test_the_last_two_are_kept(two: Checkpoints) -> None:
    two.save(content(3), IDENTITY)
    assert same(two.load(IDENTITY), content(3))
    assert sorted(path.name for path in two.current.parent.iterdir()) == ["checkpoint.previous.pt", "checkpoint.pt"]
    two.current.unlink()
    assert same(two.load(IDENTITY), content(2))


def spoiled(raw: bytes) -> Iterator[bytes]:
    """The file cut off at many lengths, and with one bit flipped at many places."""
    draws = random.Random(0)  # noqa: S311 - no secret
    for length in sorted({0, 1, 2, 3, 4, 100, len(raw) - 1, len(raw) - 22, *draws.sample(range(len(raw)), 60)}):
        yield raw[:length]
    for place in sorted(draws.sample(range(len(raw)), 300)):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << draws.randrange(8)
        yield bytes(flipped)


def test_a_truncated_or_altered_file_is_refused(two: Checkpoints, caplog: pytest.LogCaptureFixture) -> None:
    """Bits that mean nothing, such as the padding between tensors, may be flipped; what is read is never altered."""
    raw = two.current.read_bytes()
    refused = 0
    for bad in spoiled(raw):
        two.current.write_bytes(bad)
        caplog.clear()
        found = two.load(IDENTITY)
        if same(found, content(2)):
            assert not caplog.records
            assert len(bad) == len(raw)
            continue
        refused += 1
        assert same(found, content(1))
        (record,) = caplog.records
        assert record.name == "archgrad"
        assert str(two.current) in record.getMessage()
        assert "Continuing from the previous checkpoint, checkpoint.previous.pt." in record.getMessage()
    assert refused > 100


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["ARCHGRAD_BOMB"],)


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.txt", "hello")


OTHER = {"format": "archgrad.checkpoint/1", "identity": dict(IDENTITY.data), "content": {}, "digest": ""}
FOREIGN: dict[str, Callable[[Path], Any]] = {
    "pickle": lambda path: path.write_bytes(pickle.dumps({"format": "archgrad.checkpoint/3", "content": Bomb()})),
    "torch pickle": lambda path: torch.save({"format": "archgrad.checkpoint/3", "content": Bomb()}, path),
    "zip": zipped,
    "text": lambda path: path.write_text("epoch 1\nepoch 2\n"),
    "tensor": lambda path: torch.save(torch.ones(3), path),
    "other version": lambda path: torch.save(OTHER, path),
    "no digest": lambda path: torch.save({"format": "archgrad.checkpoint/3", "identity": {}, "content": {}}, path),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_runs_nothing(
    two: Checkpoints, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    crater = two.current.parent / "crater"
    monkeypatch.setenv("ARCHGRAD_BOMB", str(crater))
    FOREIGN[kind](two.current)
    assert same(two.load(IDENTITY), content(1))
    assert len(caplog.records) == 1
    FOREIGN[kind](two.previous)
    with pytest.raises(UserError) as caught:
        two.load(IDENTITY)
    assert all(part in str(caught.value) for part in (str(two.current), str(two.previous), "start a new search"))
    assert not crater.exists()


def test_a_broken_file_never_takes_the_place_of_a_whole_one(two: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    two.current.write_bytes(b"broken")
    resumed = Checkpoints(two.current.parent)
    assert same(resumed.load(IDENTITY), content(1))

    class Killed(BaseException):
        pass

    def killed(self: Path, target: Path) -> Path:
        moved.append((self.name, Path(target).name))
        if len(moved) == 1:
            raise Killed
        return replace_file(self, target)

    moved: list[tuple[str, str]] = []
    replace_file = Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(Killed):
            resumed.save(content(3), IDENTITY)
    assert same(Checkpoints(two.current.parent).load(IDENTITY), content(1))
    resumed.save(content(3), IDENTITY)
    assert same(Checkpoints(two.current.parent).load(IDENTITY), content(3))
    resumed.save(content(4), IDENTITY)
    two.current.unlink()
    assert same(two.load(IDENTITY), content(3))


def test_nothing_to_load_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"there is no checkpoint in {tmp_path / 'none'}; start a new search"):
        Checkpoints(tmp_path / "none").load(IDENTITY)


def run(out: Path, **changes: Any) -> SearchResult:
    settings = {"space": SPACE, "method": ag.recipes.darts(), "data": DATA, "epochs": 2, "batch_size": 16, **changes}
    return ag.search(**settings, out=out)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SearchResult]:
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, run(folder)


@pytest.fixture
def folder(finished: tuple[Path, SearchResult], tmp_path: Path) -> Path:
    return shutil.copytree(finished[0], tmp_path / "run")


def test_a_finished_search_is_returned_without_training(
    folder: Path, finished: tuple[Path, SearchResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*args: object) -> None:
        raise AssertionError("a step was taken")

    events: list[str] = []
    monkeypatch.setattr("archgrad.loop.steps.Stepper.weight_step", forbidden)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run(folder, resume=True, callbacks=listening(lambda event: events.append(type(event).__name__)))
    expected = finished[1]
    assert events == ["SearchStarted", "SearchFinished"]
    assert result.genotype == expected.genotype
    assert result.history == expected.history
    assert result.seconds == expected.seconds
    assert torch.equal(result.alpha["cell"], expected.alpha["cell"])
    assert torch.equal(result.mixture["cell"], expected.mixture["cell"])
    weights = expected.supernet.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in result.supernet.state_dict().items())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_folder_says_what_was_found(folder: Path, finished: tuple[Path, SearchResult]) -> None:
    result = finished[1]
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoint.previous.pt", "checkpoint.pt", "config.toml", "genotype.json", "metrics.jsonl", "mixture.json",
        "run.json", "summary.json",
    ]  # fmt: skip
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert tuple(json.loads(line) for line in lines) == result.history
    assert ag.Genotype.parse((folder / "genotype.json").read_text()) == result.genotype
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["genotype"] == str(result.genotype)
    assert summary["last_epoch"] == result.history[-1]
    assert (summary["epochs"], summary["seed"], summary["split"]) == (2, 0, [0.5, 0.5])


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seed": 1}, "seed is 0, this one's is 1"),
        ({"space": ag.spaces.NASBench201(channels=3, cells_per_stage=1)}, "space.channels is 2, this one's is 3"),
        ({"data": ag.data.digits(limit=65)}, "data.images is 64, this one's is 65"),
        ({"data": replace(DATA, augmentation=ag.data.Augmentation())}, "augmentation.crop_padding is 1"),
        ({"epochs": 3}, "weights.epochs is 2, this one's is 3"),
        ({"batch_size": 8}, "weights.batch_size is 16"),
        ({"split": (0.25, 0.5)}, "split[0] is 0.5, this one's is 0.25"),
        ({"method": ag.recipes.darts(level="single")}, "method."),
        ({"method": replace(ag.recipes.darts(), arch_optimizer=ag.arch_optimizers.Adam(lr=0.1))}, "method."),
    ],
)
def test_a_checkpoint_of_another_search_is_refused(folder: Path, changes: dict[str, Any], name: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UserError, match="belongs to another search") as caught:
        run(folder, resume=True, **changes)
    assert name in str(caught.value)
    assert "choose another folder" in str(caught.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_equal_settings_in_other_types_are_no_other_search(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    assert run(folder, resume=True, seed=numpy.int64(0), split=[0.5, 0.5]).history


class Plain(Regularizer):
    """A user's part without a repr of its own."""


def test_a_part_is_not_known_by_its_address_in_memory(tmp_path: Path) -> None:
    first, second = (replace(ag.recipes.darts(), regularizers=(part,)) for part in (Plain(), Plain()))
    assert repr(first) != repr(second)
    run(tmp_path, method=first)
    assert len(run(tmp_path, method=second, resume=True).history) == 2


def test_a_new_search_into_a_taken_folder_is_refused(folder: Path, finished: tuple[Path, SearchResult]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    events: list[Event] = []
    for _ in range(2):
        with pytest.raises(UserError, match=f"already holds a search; continue it with `archgrad resume {folder}`"):
            run(folder, callbacks=listening(events.append))
        (folder / "checkpoint.pt").unlink(missing_ok=True)
        before.pop("checkpoint.pt", None)
    assert not events
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("place", ["file", "below a file", "no device"])
def test_a_folder_that_cannot_be_is_a_sentence(tmp_path: Path, place: str, resume: bool) -> None:
    (tmp_path / "file").write_text("taken")
    out = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "run", "no device": Path("/proc/none/run")}
    with pytest.raises(UserError, match=r"choose a folder|there is no run directory") as caught:
        run(out[place], resume=resume)
    assert str(out[place]) in str(caught.value)
    assert (tmp_path / "file").read_text() == "taken"


@pytest.mark.parametrize(
    ("error", "kind", "fix"),
    [
        (PermissionError(13, "Permission denied"), UserError, "choose a folder"),
        (OSError(28, "No space left on device"), ag.DiskError, "make room on its disk, then start again"),
    ],
)
def test_a_folder_that_cannot_be_written_is_a_sentence(
    tmp_path: Path, error: OSError, kind: type, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise error

    events: list[Event] = []
    with monkeypatch.context() as patch:
        patch.setattr("archgrad.loop.folder.write_text", refuse)
        with pytest.raises(kind, match=rf"{tmp_path} cannot be written \({error.strerror}\); {fix}"):
            run(tmp_path, callbacks=listening(events.append))
    assert not events
    assert len(run(tmp_path).history) == 2


FULL = OSError(28, "No space left on device")


def hidden_by_torch(*args: object) -> None:
    try:
        raise FULL
    except OSError:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")  # noqa: B904


def told_by_torch(*args: object) -> None:
    raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")


def full_disk(*args: object) -> None:
    raise FULL


@pytest.mark.parametrize(
    ("where", "fails", "reason"),
    [
        ("torch.save", full_disk, "No space left on device"),
        ("torch.save", hidden_by_torch, "No space left on device"),
        ("torch.save", told_by_torch, "PytorchStreamWriter failed writing file data/0: file write failed"),
        ("os.fsync", full_disk, "No space left on device"),
        ("pathlib.Path.replace", full_disk, "No space left on device"),
    ],
)
def test_a_disk_that_fills_up_is_a_sentence_and_the_run_resumes(
    tmp_path: Path, finished: tuple[Path, SearchResult], where: str, fails: Any, reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fill(event: Event) -> None:
        if isinstance(event, StepFinished):
            monkeypatch.setattr(where, fails)

    sentence = rf"cannot be written \({reason}\); make room on its disk, then `archgrad resume {tmp_path}` continues"
    with pytest.raises(ag.DiskError, match=sentence):
        run(tmp_path, callbacks=listening(fill))
    monkeypatch.undo()
    assert not list(tmp_path.glob(".*"))
    assert torch.equal(run(tmp_path, resume=True).alpha["cell"], finished[1].alpha["cell"])


def search_with_small_files() -> None:
    """A limit on the size of files is as close to a full disk as a test can come."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    sizes = ["--limit", "64", "--epochs", "1", "--cells", "1", "--channels", "2"]
    sys.argv = ["archgrad", "search", "--data", "digits", *sizes, "--out", "run"]
    main()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of this kind")
def test_a_file_that_the_system_cuts_off_ends_the_command_with_1(tmp_path: Path) -> None:
    code, _, said = Forked(search_with_small_files, tmp_path, {"OMP_NUM_THREADS": "1"}).end()
    assert (code, "Traceback" in said) == (1, False), said
    assert "cannot be written (File too large); make room on its disk, then start again." in " ".join(said.split())


@pytest.mark.parametrize("name", [".metrics.jsonl.0123456789abcdef.part", ".config.toml.fedcba9876543210.part"])
def test_a_folder_with_nothing_but_unfinished_files_may_begin_again(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"half")
    run(tmp_path)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked there")
def test_two_searches_in_one_folder_are_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def intrude(event: Event) -> None:
        if isinstance(event, SearchStarted):
            with pytest.raises(UserError) as caught:
                run(tmp_path, resume=True)
            refused.append(str(caught.value))

    run(tmp_path, callbacks=listening(intrude), epochs=2)
    assert refused == [f"another search is running in {tmp_path}; wait for its end or choose another folder."]


def test_resuming_from_the_checkpoint_before_the_last_repeats_to_the_same_end(
    folder: Path, finished: tuple[Path, SearchResult], caplog: pytest.LogCaptureFixture
) -> None:
    current = folder / "checkpoint.pt"
    current.write_bytes(current.read_bytes()[:-100])
    seen: list[list[int]] = []

    def look(event: Event) -> None:
        if isinstance(event, SearchStarted):
            assert not (folder / "summary.json").exists()
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        seen.append([json.loads(line)["epoch"] for line in lines])

    result = run(folder, resume=True, callbacks=listening(look))
    assert len(caplog.records) == 1
    assert seen == [[1], [1], [1], [1, 2], [1, 2]]
    assert torch.equal(result.alpha["cell"], finished[1].alpha["cell"])
    assert json.loads((folder / "summary.json").read_text())["genotype"] == str(result.genotype)
    assert run(folder, resume=True).genotype == result.genotype


def test_what_a_killed_process_left_is_swept(folder: Path) -> None:
    for name in ("checkpoint.pt", "metrics.jsonl", "summary.json"):
        (folder / f".{name}.0123456789abcdef.part").write_bytes(b"half")
    (folder / "notes.part").write_text("the user's own")
    run(folder, resume=True)
    assert [path.name for path in folder.glob("*.part")] == ["notes.part"]


def test_a_search_killed_before_its_first_checkpoint_may_begin_again(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", {}, {"notes.txt": "kept"}).opened(resume=False) as saved:
        assert saved is None
    assert (tmp_path / "run" / "notes.txt").read_text() == "kept"
    assert len(run(tmp_path / "run").history) == 2


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_what_cannot_be_read_is_not_called_damaged(
    two: Checkpoints, error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(torch, "load", refuse)
    with pytest.raises(UserError, match=rf"checkpoint.pt cannot be read \({error.strerror}\); nothing is lost yet"):
        two.load(IDENTITY)


def rename(saved: dict[str, Any]) -> None:
    saved["alpha"]["other"] = saved["alpha"].pop("cell")


def widen(saved: dict[str, Any]) -> None:
    saved["weights"] = {name: value.double() for name, value in saved["weights"].items()}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda saved: saved.pop("alpha"), "it has no 'alpha'"),
        (rename, "its alpha have other names"),
        (lambda saved: saved["alpha"].update(cell=torch.ones(6, 4)), r"'cell' has \[6, 4\] .*, not \[6, 5\]"),
        (widen, "its weights .* of torch.float64"),
        (lambda saved: saved["optimizer"].update(param_groups=[]), "parameter group"),
        (lambda saved: saved["position"].update(step=10**6), "it is at step 1000000"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(folder: Path, change: Callable[[Any], Any], sentence: str) -> None:
    """Its identity and digest are right, so only its content tells."""
    body = torch.load(folder / "checkpoint.pt", weights_only=True)
    change(body["content"])
    Checkpoints(folder).save(body["content"], RunIdentity(body["identity"], {}))
    with pytest.raises(UserError, match=f"does not hold a state of this search: .*{sentence}"):
        run(folder, resume=True)


def test_other_threads_than_those_of_the_run_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    threads = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, callbacks=dying_at(1))
    try:
        torch.set_num_threads(threads + 1)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, resume=True, callbacks=dying_at(1))
    finally:
        torch.set_num_threads(threads)
    assert f"began with {threads} threads and continues with {threads + 1}, so the last bits" in caplog.text


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match=r"not empty: it holds thesis\.tex"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
