"""Checkpoints of the live learner: all that changes, written whole or not at all. The last two are kept."""

import logging
import shutil
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import Field
from torch import Tensor

from gfn4rec.errors import UserError
from gfn4rec.live.config import LearnerSettings
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, write_directory
from gfn4rec.storage import raw_manifest

FORMAT: Final = "gfn4rec live learner"
_VERSION: Final = 1
_KEPT: Final = 2
_LOG: Final = logging.getLogger(__name__)
Parts: TypeAlias = dict[str, dict[str, Tensor]]


class LearnerManifest(DirectoryManifest):
    """`manifest.json` of the learner's checkpoint."""

    format: str = FORMAT
    version: int = _VERSION
    cursor: int
    """The last sample that was read."""
    pending: int
    """Samples read since the latest step."""
    learned_to: int
    """The last sample before the latest step that was not skipped; 0: there was none."""
    skipped: int
    """Steps that were left out because the loss or its gradient was not finite."""
    revision: int
    """The catalogue that the weights know."""
    settings: LearnerSettings = Field(default_factory=LearnerSettings)


class Checkpoints:
    """The directory of a learner's checkpoints, named after the last sample that was read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, manifest: LearnerManifest, parts: Parts) -> None:
        """Write a checkpoint, then delete the oldest."""
        tensors = {f"{name}.safetensors": values for name, values in parts.items()}
        write_directory(self.directory / f"{manifest.cursor:012d}", manifest, tensors)
        for old in self._paths()[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def load(self) -> tuple[LearnerManifest, Parts] | None:
        """Return the newest checkpoint that is whole, and delete what is not; None if there has been none.

        What the learner had learned since an older checkpoint it learns again from the same samples.
        """
        problems: list[UserError] = []
        damaged: list[Path] = []
        for path in reversed(self._paths()):
            try:
                loaded = _load(path)
            except UserError as error:
                problems.append(error)
                damaged.append(path)
                continue
            for problem in problems:
                _LOG.warning("%s; the checkpoint before it is used", problem)
            for left in (*damaged, *self.directory.glob(".*")):
                shutil.rmtree(left, ignore_errors=True)
            return loaded
        if problems:
            raise UserError(f"{problems[0]}; delete {self.directory} to learn from the first sample again")
        return None

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.directory.glob("*") if path.name.isdecimal())


def _load(path: Path) -> tuple[LearnerManifest, Parts]:
    values = raw_manifest(path, FORMAT, _VERSION, "checkpoint", "`gfn4rec live learn`")
    manifest = LearnerManifest.parse(values, str(path))
    check_files(path, manifest.files, "it cannot be used")
    return manifest, {Path(name).stem: load_tensors(path / name) for name in manifest.files}
