"""Run directories: whole, or one clear line."""

import dataclasses
import errno
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import gfn4rec.nn.weights as weights_module
from gfn4rec.errors import RunError, UserError
from gfn4rec.training.optimisation import require_finite
from gfn4rec.training.recording import FLUSH_SECONDS, MetricsLine, MetricsWriter
from gfn4rec.training.run import Progress, Run
from tests.small_catalogue import make_batch, make_catalogue
from tests.training.conftest import small_settings

NewRun = Callable[..., Run]


@pytest.fixture
def run(new_run: NewRun) -> Run:
    made = new_run(small_settings("cf"))
    for step in (10, 20, 30):
        made.save_checkpoint(step, {"policy": {"weight": torch.full((3,), float(step))}}, Progress(seconds=1.5))
    return made


def test_what_is_written_is_read(run: Run) -> None:
    opened = Run.open(run.directory)
    assert opened.manifest == run.manifest
    checkpoint = opened.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 30
    assert checkpoint.progress == Progress(seconds=1.5)
    assert checkpoint.tensors["policy"]["weight"].tolist() == [30.0] * 3
    assert opened.manifest.settings.policy_settings.model_dump()["probability"] == "sigmoid"
    assert opened.manifest.versions["torch"] == torch.__version__


def test_the_last_two_checkpoints_are_kept(run: Run) -> None:
    assert [path.name for path in sorted((run.directory / "checkpoints").iterdir())] == [
        "step-00000020",
        "step-00000030",
    ]


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "manifest"])
def test_a_damaged_checkpoint_is_passed_over_with_a_note(run: Run, damage: str) -> None:
    newest = run.directory / "checkpoints" / "step-00000030"
    file = newest / ("manifest.json" if damage == "manifest" else "policy.safetensors")
    content = file.read_bytes()
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(content[: len(content) // 2] if damage in ("cut", "manifest") else content[:-1] + b"x")
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 20
    assert len(checkpoint.notes) == 1
    assert "step-00000030" in checkpoint.notes[0]


def test_no_whole_checkpoint_at_all(run: Run) -> None:
    for path in (run.directory / "checkpoints").glob("*/policy.safetensors"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint is whole"):
        run.load_checkpoint()


def test_no_checkpoint_yet(new_run: NewRun) -> None:
    assert new_run(small_settings("cf")).load_checkpoint() is None


def test_a_run_of_another_version(run: Run) -> None:
    manifest = json.loads((run.directory / "manifest.json").read_text(encoding="utf-8"))
    (run.directory / "manifest.json").write_text(json.dumps(manifest | {"version": 99}), encoding="utf-8")
    with pytest.raises(UserError, match="format version 99, but this gfn4rec reads version 1"):
        Run.open(run.directory)


def test_something_else_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run"):
        Run.open(tmp_path)


def test_a_run_does_not_overwrite_anything(run: Run) -> None:
    with pytest.raises(UserError, match="exists already; resume it with `gfn4rec train resume"):
        Run.create(run.directory, run.manifest)
    other = run.directory.parent / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="exists already; choose another --out"):
        Run.create(other, run.manifest)


def test_a_full_disk_keeps_the_last_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(weights_module, "save_file", full)
    with pytest.raises(UserError, match="writing failed, what was there before is untouched .*No space left"):
        run.save_checkpoint(40, {"policy": {"weight": torch.ones(3)}}, Progress())
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 30
    assert not list((run.directory / "checkpoints").glob(".*"))


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of file sizes")
def test_a_file_that_cannot_be_written_whole_keeps_the_last_checkpoint(run: Run) -> None:
    """A real failure of the file system, not one that a test has made up."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(UserError, match="writing failed, what was there before is untouched .*too large"):
            run.save_checkpoint(40, {"policy": {"weight": torch.ones(5000)}}, Progress())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.step == 30


def test_a_damaged_checkpoint_does_not_stand_in_the_way_of_its_successor(run: Run) -> None:
    (run.directory / "checkpoints" / "step-00000030" / "manifest.json").write_text("{")
    run.forget_after(20)
    run.save_checkpoint(30, {"policy": {"weight": torch.zeros(3)}}, Progress())
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.notes) == (30, ())


def test_a_run_appears_with_its_manifest(new_run: NewRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever stops it before that leaves nothing in the way of another try."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            new_run(small_settings("cf"))
    assert not (tmp_path / "run").exists()
    assert new_run(small_settings("cf")).load_checkpoint() is None


def write(run: Run, *lines: MetricsLine, first_step: int = 0) -> None:
    with run.metrics_writer(first_step) as writer:
        for line in lines:
            step = line["step"]
            assert isinstance(step, int)
            writer.write(step, {key: value for key, value in line.items() if key != "step"})


def test_metrics_lines(run: Run) -> None:
    write(run, {"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.25})
    write(run, {"step": 3, "reward": 1.0})
    assert [line["step"] for line in run.metrics()] == [1, 2, 3]
    (run.directory / "checkpoints" / ".step-00000040-abc").mkdir()
    run.forget_after(2)
    assert not list((run.directory / "checkpoints").glob(".*"))
    assert run.metrics() == [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.25}]


def test_metrics_are_written_within_seconds(run: Run) -> None:
    """A reader of the file sees a step a few seconds later; writing every step at once would cost too much."""
    now = 100.0
    writer = MetricsWriter(run.directory, clock=lambda: now)
    writer.write(1, {"reward": 0.5})
    now += FLUSH_SECONDS / 2
    writer.write(2, {"reward": 0.5})
    assert run.metrics() == []
    now += FLUSH_SECONDS / 2
    writer.write(3, {"reward": 0.5})
    assert [line["step"] for line in run.metrics()] == [1, 2, 3]
    writer.write(4, {"reward": 0.5})
    assert len(run.metrics()) == 3
    writer.flush()
    assert len(run.metrics()) == 4


def test_a_line_that_was_cut_off_is_left_out(run: Run) -> None:
    write(run, {"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.5})
    path = run.directory / "metrics.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    assert [line["step"] for line in run.metrics()] == [1]
    run.forget_after(1)
    write(run, {"step": 2, "reward": 0.75})
    assert run.metrics() == [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.75}]


def test_metrics_that_cannot_be_written_stop_the_run_in_one_line(run: Run) -> None:
    (run.directory / "metrics.jsonl").mkdir()
    with pytest.raises(UserError, match="writing failed .*; the last checkpoint is kept"):
        write(run, {"step": 1, "reward": 0.5})


def test_tensorboard_events_have_the_metrics(new_run: NewRun) -> None:
    """Those of a resumed run take the place of what a killed one wrote after its last checkpoint."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = new_run(small_settings("cf", changes={"tensorboard": True}))
    write(run, {"step": 1, "reward": 0.5, "seconds": 3.0}, {"step": 2, "reward": 9.0}, {"step": 3, "reward": 9.0})
    write(run, {"step": 2, "reward": 0.25}, {"step": 2, "greedy": {"reward": 0.75}}, first_step=2)
    events = accumulator.EventAccumulator(str(run.directory / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"reward", "greedy/reward"}
    assert [(event.step, event.value) for event in events.Scalars("reward")] == [(1, 0.5), (2, 0.25)]


def test_tensorboard_that_is_not_installed_is_told(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match="tensorboard is not installed; pip install 'gfn4rec.tensorboard.'"):
        new_run(small_settings("cf", changes={"tensorboard": True}))


def test_a_run_is_not_resumed_without_the_tensorboard_it_was_begun_with(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match="tensorboard is not installed; pip install"):
        MetricsWriter(run.directory, tensorboard=True)


@pytest.mark.parametrize("content", [b"{", b"", b"\xff", b"[]", b'{"step": "many"}'])
def test_damaged_results_are_reported_in_one_line(run: Run, content: bytes) -> None:
    (run.directory / "results.json").write_bytes(content)
    with pytest.raises(UserError, match=r"results\.json: ") as caught:
        _ = run.results
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", [b"{", b"", b"\xff", b"[]", b"{}", b'{"step": {}}', b'{"step": "x"}', b"\0\0"])
def test_a_damaged_line_of_metrics_is_named(run: Run, line: bytes) -> None:
    (run.directory / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 2}\n')
    for read in (run.metrics, lambda: run.forget_after(2)):
        with pytest.raises(UserError, match=r"metrics\.jsonl, line 2: damaged; delete the line$"):
            read()


def test_a_damaged_manifest_is_reported_in_one_line(run: Run) -> None:
    path = run.directory / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    for key, damage in (("settings", {**values["settings"], "kind": "x"}), ("data", None), ("unknown", 1)):
        path.write_text(json.dumps({**values, key: damage}), encoding="utf-8")
        with pytest.raises(UserError, match=r"manifest\.json is damaged: .*(kind|data|unknown)") as caught:
            Run.open(run.directory)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_kept_batch_says_which_items_were_sampled(run: Run, is_marked: bool) -> None:
    mark_BK = torch.tensor([[True, False, False], [False, False, True]])
    batch = dataclasses.replace(make_batch(make_catalogue(), 2), is_sampled_BK=mark_BK if is_marked else None)
    with pytest.raises(RunError, match="stopped-batch"), run.keeping_bad_batch(7):
        require_finite("loss", float("nan"), batch)
    kept = load_file(run.directory / "stopped-batch.safetensors")
    assert ("is_sampled" in kept) == is_marked
    if is_marked:
        assert kept["is_sampled"].tolist() == mark_BK.tolist()
