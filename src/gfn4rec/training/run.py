"""A run directory: what was asked for, what was measured, and checkpoints to go on from.

    manifest.json    settings, seed, data set, simulator, versions
    metrics.jsonl    one line per step, evaluation or look
    checkpoints/     the last two, each written whole or not at all
    results.json     the final figures; its presence means that the run is finished

A process that dies at any moment leaves a run that can be opened: lines of `metrics.jsonl` after the last checkpoint
are dropped when it goes on, because their steps are made anew.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import Field
from torch import Tensor

from gfn4rec import __version__
from gfn4rec.config import StrictConfig
from gfn4rec.data.identity import DataIdentity
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, write_directory
from gfn4rec.storage import MANIFEST, raw_manifest, replace_directory, write_whole
from gfn4rec.training.config import RunSettings
from gfn4rec.training.tensorboard import require_tensorboard, write_events

FORMAT: Final = "gfn4rec run"
CHECKPOINT_FORMAT: Final = "gfn4rec checkpoint"
VERSION: Final = 1
POLICY: Final = "policy"  # the tensors of a checkpoint that a policy is made from
_KEPT = 2


class RunManifest(StrictConfig):
    """`manifest.json` of a run."""

    format: str = FORMAT
    version: int = VERSION
    settings: RunSettings
    data_path: str
    data: DataIdentity
    data_content: dict[str, Any] | None = None  # all of it; None in runs of before this was remembered, as is rho
    simulator_path: str | None
    simulator_files: dict[str, str] | None  # checksums
    simulator_rho: float | None = None
    num_processes: int = 1
    versions: dict[str, str] = Field(default_factory=lambda: {"gfn4rec": __version__, "torch": torch.__version__})
    git_hash: str | None = None


class CheckpointManifest(DirectoryManifest):
    """`manifest.json` of a checkpoint."""

    format: str = CHECKPOINT_FORMAT
    version: int = VERSION
    step: int
    state: dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A state to go on from: tensors by file, and the rest."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]
    notes: tuple[str, ...] = ()  # what was wrong with newer ones


class Run:
    """A run on disk."""

    def __init__(self, directory: Path, manifest: RunManifest) -> None:
        self.directory, self.manifest = directory, manifest
        self._has_events = bool(manifest.settings.training.get("tensorboard"))

    @classmethod
    def create(cls, directory: Path, manifest: RunManifest) -> "Run":
        """Begin a run in a new or empty directory."""
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            remedy = f"go on with it by `gfn4rec train resume {directory}`, or " if _is_unfinished(directory) else ""
            raise UserError(f"{directory}: exists already; {remedy}choose another --out")
        if manifest.settings.training.get("tensorboard"):
            require_tensorboard()
        with replace_directory(directory, FORMAT) as fresh:
            (fresh / "checkpoints").mkdir()
            cls(fresh, manifest)._write_json(MANIFEST, manifest.model_dump(mode="json"))
        return cls(directory, manifest)

    @classmethod
    def open(cls, directory: Path) -> "Run":
        """A run that was begun before."""
        values = raw_manifest(directory, FORMAT, VERSION, "run", "`gfn4rec train`")
        return cls(directory, RunManifest.parse(values, f"{directory / MANIFEST} is damaged"))

    @property
    def results(self) -> dict[str, Any] | None:
        """The final figures, once the run is finished."""
        path = self.directory / "results.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def finish(self, results: dict[str, Any]) -> None:
        """Write the final figures."""
        self._write_json("results.json", results)

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`; one that was cut off while it was written is left out."""
        path = self.directory / "metrics.jsonl"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def record(self, lines: list[dict[str, Any]]) -> None:
        """Add lines to `metrics.jsonl`."""
        text = "".join(json.dumps(line) + "\n" for line in lines)
        try:
            with (self.directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(text)
            if self._has_events:
                write_events(self.directory, lines)
        except OSError as error:
            raise UserError(
                f"{self.directory}: writing failed ({error.strerror}); the last checkpoint is kept"
            ) from error

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that will be made anew, and checkpoints that are damaged or half-written."""
        newer = [path for path in self._checkpoints() if path > self._checkpoint(step)]
        for left in (*(self.directory / "checkpoints").glob(".*"), *newer):
            shutil.rmtree(left, ignore_errors=True)
        kept = [line for line in self.metrics() if line["step"] <= step]
        write_whole(self.directory / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))

    def has_checkpoints(self) -> bool:
        """Whether anything would be lost with the run."""
        return bool(self._checkpoints())

    def save_checkpoint(self, step: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Write a checkpoint, then drop the oldest."""
        files = {f"{name}.safetensors": values for name, values in tensors.items()}
        write_directory(self._checkpoint(step), CheckpointManifest(step=step, state=state), files)
        for old in self._checkpoints()[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def load_checkpoint(self, only: str | None = None) -> Checkpoint | None:
        """The newest checkpoint that is whole, or one file of it; None if there is none yet."""
        notes: list[str] = []
        for directory in reversed(self._checkpoints()):
            try:
                values = raw_manifest(directory, CHECKPOINT_FORMAT, VERSION, "checkpoint", "`gfn4rec train`")
                manifest = CheckpointManifest.parse(values, f"{directory / MANIFEST} is damaged")
                check_files(directory, manifest.files, "it is passed over")
                names = [Path(name).stem for name in manifest.files if only in (None, Path(name).stem)]
                tensors = {name: load_tensors(directory / f"{name}.safetensors") for name in names}
            except UserError as error:
                notes.append(str(error))
                continue
            return Checkpoint(manifest.step, tensors, manifest.state, tuple(notes))
        if notes:
            raise UserError(f"{self.directory}: no checkpoint is whole ({notes[0]}); train it again")
        return None

    def _checkpoint(self, step: int) -> Path:
        return self.directory / "checkpoints" / f"step-{step:08d}"

    def _checkpoints(self) -> list[Path]:
        return sorted((self.directory / "checkpoints").glob("step-*"))

    def _write_json(self, name: str, values: dict[str, Any]) -> None:
        write_whole(self.directory / name, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def _is_unfinished(directory: Path) -> bool:
    try:
        return Run.open(directory).results is None
    except UserError:
        return False


def git_hash() -> str | None:
    """Of the code that runs, if it runs from a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
