"""Published versions of the policy: directories of weights that are written whole or not at all."""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from gfn4rec.errors import RunError, UserError
from gfn4rec.live.records import VersionRow
from gfn4rec.live.store.state import CANDIDATE, PROMOTED, RETIRED
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, load_weights, write_directory
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request, Sampling, check_slates
from gfn4rec.storage import MANIFEST, raw_manifest
from gfn4rec.training.run import POLICY

FORMAT: Final = "gfn4rec version"
_VERSION: Final = 1
_WEIGHTS: Final = f"{POLICY}.safetensors"
_EXPLODED: Final = 10.0  # a loss this many times the median of the versions before


class VersionManifest(DirectoryManifest):
    """`manifest.json` of a version."""

    format: str = FORMAT
    version: int = _VERSION
    number: int
    parent: int | None
    trained_to_seq: int
    """The last sample that it has learned from; 0: none."""
    step: int
    revision: int
    """The catalogue that it knows."""
    num_items: int
    loss: float | None = None
    """Mean loss of the learning steps since the version before."""
    created: float

    def row(self, state: str, reason: str | None = None) -> VersionRow:
        """Return what the store keeps of it."""
        return VersionRow(
            version=self.number,
            parent=self.parent,
            sha256=self.files[_WEIGHTS],
            trained_to_seq=self.trained_to_seq,
            step=self.step,
            loss=self.loss,
            state=state,
            reason=reason,
            created=self.created,
        )


class Versions:
    """The directory of versions; each has a number, and the numbers grow."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def numbers(self) -> list[int]:
        """Return the numbers of all versions that are there, in ascending order."""
        if not self.directory.is_dir():
            return []
        return sorted(int(path.name) for path in self.directory.iterdir() if path.name.isdecimal())

    def publish(self, policy: Policy, **values: Any) -> VersionManifest:
        """Write the weights of a policy as a version; `values` are those of its manifest."""
        manifest = VersionManifest(num_items=policy.catalogue.num_items, created=time.time(), **values)
        return write_directory(self.path(manifest.number), manifest, {_WEIGHTS: policy.state_dict()})

    def manifest(self, number: int) -> VersionManifest:
        """Return what a version says of itself."""
        path = self.path(number)
        values = raw_manifest(path, FORMAT, _VERSION, "version", "the learner of a live service")
        manifest = VersionManifest.parse(values, str(path))
        if manifest.number != number or manifest.files.keys() != {_WEIGHTS}:
            raise UserError(f"{path}: its {MANIFEST} is damaged; choose another version")
        return manifest

    def trained_to(self) -> int:
        """Return the last sample that any version has learned from; damaged versions do not count."""
        seqs = [0]
        for number in self.numbers():
            with suppress(UserError):
                seqs.append(self.manifest(number).trained_to_seq)
        return max(seqs)

    def load(self, number: int, policy_for: Callable[[VersionManifest], Policy]) -> tuple[VersionManifest, Policy]:
        """Return a version's policy, given an untrained one of the right size; a damaged one is a `UserError`."""
        path, manifest = self.path(number), self.manifest(number)
        check_files(path, manifest.files, "choose another version")
        policy = policy_for(manifest)
        load_weights(policy, load_tensors(path / _WEIGHTS), path)
        return manifest, policy.eval()

    def delete(self, number: int) -> None:
        """Delete a version; whoever looks for it meanwhile finds all of it or nothing."""
        aside = self.directory / f".{number:06d}-deleted"
        with suppress(OSError):  # tried again with the next version
            self.path(number).rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def clean(self) -> None:
        """Delete what processes that were killed have left half-written or half-deleted."""
        for left in self.directory.glob(".*"):
            shutil.rmtree(left, ignore_errors=True)

    def path(self, number: int) -> Path:
        """Return the directory of a version."""
        return self.directory / f"{number:06d}"


def probe(policy: Policy, request: Request) -> None:
    """Raise a `UserError` unless the policy answers some requests with valid slates and finite probabilities."""
    for sampling in (Sampling(greedy=True), Sampling()):
        try:
            proposal = policy.recommend(request, torch.Generator().manual_seed(0), sampling)
        except RunError as error:
            raise UserError(f"probe requests fail ({error})") from error
        check_slates(proposal.slate_BK, len(request.user_B), policy.catalogue.slate_size, policy.catalogue.num_items)
        _require_finite(proposal.log_prob_BK)


def _require_finite(log_prob_BK: Tensor) -> None:
    if not bool(log_prob_BK.isfinite().all()):
        raise UserError("probe requests get probabilities that are NaN or infinite")


def loss_problem(loss: float | None, before: Sequence[float]) -> str | None:
    """Return what is wrong with a version's loss beside those of earlier versions, or None.

    >>> loss_problem(5.0, [0.3, 0.4, 0.5])
    'its loss is 5, more than 10 times the median of the versions before, 0.4'
    """
    if loss is None or len(before) < 3:
        return None
    median = sorted(abs(value) for value in before)[len(before) // 2]
    if median == 0 or abs(loss) <= _EXPLODED * median:  # 0: there was nothing to learn from yet
        return None
    return f"its loss is {loss:g}, more than {_EXPLODED:g} times the median of the versions before, {median:g}"


def versions_body(rows: Sequence[VersionRow], there: Sequence[int], is_automatic: bool) -> dict[str, object]:
    """Return what `GET /v1/versions` answers; weights that have been deleted cannot be promoted."""
    names = ("version", "parent", "state", "reason", "trained_to_seq", "step", "loss", "created", "promoted")
    return {
        "promoted": next((row.version for row in rows if row.state == PROMOTED), None),
        "automatic_promotion": is_automatic,
        "versions": [
            {name: getattr(row, name) for name in names}
            | {"can_promote": row.version in set(there) and row.state in (CANDIDATE, RETIRED)}
            for row in rows
        ],
    }
