"""A run directory: what was asked for, what was measured, and checkpoints to resume from.

    manifest.json    settings, seed, data set, simulator, versions
    metrics.jsonl    a line per step and evaluation, written as they happen
    checkpoints/     the last two, each written whole or not at all
    results.json     the final metrics; its presence means that the run is finished
    log/             of an online run that began with the log: the offline run that learned from it

A process that dies at any moment leaves a run that can be opened: lines of `metrics.jsonl` after the last checkpoint
are dropped when it is resumed, because their steps are recomputed.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from pydantic import Field
from torch import Tensor

from gfn4rec import __version__
from gfn4rec.config import StrictConfig
from gfn4rec.data.identity import DataContent, DataIdentity
from gfn4rec.errors import RunError, UserError
from gfn4rec.evaluation.held_out_protocol import HeldOutResults
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, save_tensors, write_directory
from gfn4rec.schema import SlateBatch
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.storage import MANIFEST, raw_manifest, replace_directory, write_whole
from gfn4rec.training.config import RunSettings
from gfn4rec.training.optimisation import NotFinite
from gfn4rec.training.recording import (
    MetricsLine,
    MetricsWriter,
    forget_metrics,
    read_metrics,
    require_tensorboard,
)

FORMAT: Final = "gfn4rec run"
CHECKPOINT_FORMAT: Final = "gfn4rec checkpoint"
VERSION: Final = 1
POLICY: Final = "policy"  # the policy's weights in a checkpoint
LOG: Final = "log"  # the offline run inside an online one that began with the log
BAD_BATCH: Final = "stopped-batch.safetensors"
_KEPT = 2


class RunManifest(StrictConfig):
    """`manifest.json` of a run."""

    format: str = FORMAT
    version: int = VERSION
    settings: RunSettings
    data_path: str
    data: DataIdentity
    data_content: DataContent | None = None
    """Checksums, weights and settings of the data set; None in old runs, as is `simulator_rho`."""
    simulator_path: str | None
    simulator_files: dict[str, str] | None
    """Checksums by file name."""
    simulator_rho: float | None = None
    simulator_pessimism: float = 0.0
    simulator_effects: ListEffects = NO_EFFECTS
    started_from: str | None = None
    """The run whose weights this one began with, if any."""
    num_processes: int = 1
    num_threads: int | None = None
    """Threads of each process, on which the rounding of sums depends; None in old runs."""
    versions: dict[str, str] = Field(default_factory=lambda: {"gfn4rec": __version__, "torch": torch.__version__})
    git_hash: str | None = None


class Validation(StrictConfig):
    """The validation loss after a step of offline learning."""

    step: int
    loss: float
    parts: dict[str, float] = Field(default_factory=dict)
    """The loss of each part of the policy that is kept on its own; they sum to the loss. The rest is named ''."""
    frozen: tuple[str, ...] = ()
    """Parts that stopped learning after this evaluation."""


class Progress(StrictConfig):
    """What a checkpoint knows of a run besides tensors."""

    seconds: float = 0.0
    """Time spent on showing and learning."""
    recent: tuple[dict[str, float], ...] = ()
    """Metrics of the latest online steps."""
    validations: tuple[Validation, ...] = Field(default=(), validation_alias="looks", serialization_alias="looks")
    """Validation losses of offline learning, in the order of their steps; `looks` on disk."""


class CheckpointManifest(DirectoryManifest):
    """`manifest.json` of a checkpoint."""

    format: str = CHECKPOINT_FORMAT
    version: int = VERSION
    step: int
    state: Progress


@dataclass(frozen=True)
class Checkpoint:
    """A state to resume from."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    """By file name."""
    progress: Progress
    notes: tuple[str, ...] = ()
    """What was wrong with newer checkpoints."""


class RunResults(StrictConfig):
    """The final metrics of a run, as in `results.json`."""

    step: int
    """The last step; offline learning may stop early."""
    seconds: float
    """Time spent on showing and learning, without evaluations."""
    greedy: dict[str, float] | None = None
    """Metrics of greedy slates in the simulator."""
    sampled: dict[str, float] | None = None
    """Metrics of slates sampled at temperature 1 in the simulator."""
    last_steps: dict[str, float] | None = None
    """Means over the last steps of online learning, as the paper reports them."""
    test: dict[str, float] | None = None
    """Ranking metrics of the logged test slates."""
    held_out: HeldOutResults | None = None
    """What the policy shows before the test slates, beside references; None in old runs and without test slates."""
    best_step: int | None = None
    """The step with the lowest validation loss, whose weights are kept."""
    validation_loss: float | None = None
    """The lowest validation loss."""

    def as_dict(self) -> dict[str, object]:
        """Return the metrics that there are, for JSON."""
        return self.model_dump(mode="json", exclude_none=True)


class Run:
    """A run on disk."""

    def __init__(self, directory: Path, manifest: RunManifest) -> None:
        self.directory, self.manifest = directory, manifest

    @property
    def settings(self) -> RunSettings:
        """The settings that the run was begun with."""
        return self.manifest.settings

    @classmethod
    def create(cls, directory: Path, manifest: RunManifest) -> "Run":
        """Begin a run in a new or empty directory."""
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            remedy = f"resume it with `gfn4rec train resume {directory}`, or " if _is_unfinished(directory) else ""
            raise UserError(f"{directory}: exists already; {remedy}choose another --out")
        if manifest.settings.training.tensorboard:
            require_tensorboard()
        with replace_directory(directory, FORMAT) as fresh:
            (fresh / "checkpoints").mkdir()
            cls(fresh, manifest)._write_json(MANIFEST, manifest.model_dump(mode="json"))
        return cls(directory, manifest)

    @classmethod
    def open(cls, directory: Path) -> "Run":
        """Open a run that was begun before."""
        values = raw_manifest(directory, FORMAT, VERSION, "run", "`gfn4rec train`")
        return cls(directory, RunManifest.parse(values, f"{directory / MANIFEST} is damaged"))

    @property
    def results(self) -> RunResults | None:
        """The final metrics, once the run is finished."""
        path = self.directory / "results.json"
        if not path.is_file():
            return None
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            remedy = f"delete it, then `gfn4rec train resume {self.directory}` writes it again"
            raise UserError(f"{path}: damaged; {remedy}") from None
        return RunResults.parse(values, str(path))

    def finish(self, results: RunResults) -> None:
        """Write the final metrics."""
        self._write_json("results.json", results.as_dict())

    def metrics(self) -> list[MetricsLine]:
        """Return the lines of `metrics.jsonl`."""
        return read_metrics(self.directory)

    def metrics_writer(self, first_step: int) -> MetricsWriter:
        """Return what writes metrics from a step on."""
        return MetricsWriter(self.directory, first_step, self.settings.training.tensorboard)

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that will be recomputed, and checkpoints that are damaged or incomplete."""
        newer = [path for path in self._checkpoints() if path > self._checkpoint(step)]
        for left in (*(self.directory / "checkpoints").glob(".*"), *newer):
            shutil.rmtree(left, ignore_errors=True)
        forget_metrics(self.directory, step)

    @contextmanager
    def keeping_bad_batch(self, step: int) -> Iterator[None]:
        """Stop the run if a loss or gradient is NaN or infinite; keep the batch, and say where it is."""
        try:
            yield
        except NotFinite as problem:
            where = "" if problem.batch is None else f"; {self._keep_batch(problem.batch)}"
            raise RunError(f"{self.directory}: {problem} at step {step}{where}; lower learning_rate") from problem

    def _keep_batch(self, batch: SlateBatch) -> str:
        tensors = {
            "user": batch.request.user_B,
            "history": batch.request.history_BH,
            "response": batch.request.response_BHR,
            "slate": batch.slate_BK,
            "slate_response": batch.response_BKR,
            "item_reward": batch.item_reward_BK,
            "reward": batch.reward_B,
        }
        if batch.is_sampled_BK is not None:
            tensors["is_sampled"] = batch.is_sampled_BK
        try:
            save_tensors(self.directory / BAD_BATCH, tensors)
        except OSError as error:
            return f"the batch could not be written ({str(error).splitlines()[0]})"
        return f"the batch is in {BAD_BATCH}"

    def has_checkpoints(self) -> bool:
        """Return whether there is anything to resume from."""
        return bool(self._checkpoints())

    def save_checkpoint(self, step: int, tensors: dict[str, dict[str, Tensor]], progress: Progress) -> None:
        """Write a checkpoint, then delete the oldest."""
        files = {f"{name}.safetensors": values for name, values in tensors.items()}
        write_directory(self._checkpoint(step), CheckpointManifest(step=step, state=progress), files)
        for old in self._checkpoints()[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def load_checkpoint(self, only: str | None = None) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, or one file of it; None if there is none yet."""
        notes: list[str] = []
        for directory in reversed(self._checkpoints()):
            try:
                values = raw_manifest(directory, CHECKPOINT_FORMAT, VERSION, "checkpoint", "`gfn4rec train`")
                manifest = CheckpointManifest.parse(values, f"{directory / MANIFEST} is damaged")
                check_files(directory, manifest.files, "it is skipped")
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

    def _write_json(self, name: str, values: dict[str, object]) -> None:
        write_whole(self.directory / name, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def _is_unfinished(directory: Path) -> bool:
    try:
        return Run.open(directory).results is None
    except UserError:
        return False


def git_hash() -> str | None:
    """Return the commit of the code, if it runs from a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
