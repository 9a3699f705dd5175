"""Policies on disk: safetensors and JSON, refused if damaged, not finite, or made for another data set."""

from pathlib import Path
from typing import Any, Final

import torch
from pydantic import Field

from gfn4rec import __version__
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import DataIdentity, identity_of, refuse_other_data
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import DirectoryManifest, check_files, load_tensors, load_weights, write_directory
from gfn4rec.policies import build_policy, policy_name
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.storage import MANIFEST, raw_manifest

FORMAT: Final = "gfn4rec policy"
VERSION: Final = 1
WEIGHTS: Final = "policy.safetensors"


class PolicyManifest(DirectoryManifest):
    """`manifest.json` of a policy."""

    format: str = FORMAT
    version: int = VERSION
    policy: str
    settings: dict[str, Any]
    data: DataIdentity
    slate_size: int
    versions: dict[str, str] = Field(default_factory=lambda: {"gfn4rec": __version__, "torch": torch.__version__})


def save_policy(directory: Path, policy: Policy, data: SlateData) -> PolicyManifest:
    """Write a policy, whole or not at all."""
    manifest = PolicyManifest(
        policy=policy_name(policy),
        settings=policy.config.model_dump(mode="json"),
        data=identity_of(data.manifest),
        slate_size=policy.catalogue.slate_size,
    )
    return write_directory(directory, manifest, {WEIGHTS: policy.state_dict()})


def load_policy(directory: Path, data: SlateData) -> Policy:
    """A policy in evaluation mode, for the data set it was made for; it gives the same slates as the one saved."""
    maker = "`gfn4rec train`"
    values = raw_manifest(directory, FORMAT, VERSION, "policy", maker)
    manifest = PolicyManifest.parse(values, f"{directory / MANIFEST} is damaged, make it again with {maker}")
    check_files(directory, manifest.files, f"make the policy again with {maker}")
    refuse_other_data(manifest.data, data.manifest, directory)
    if manifest.slate_size != data.slate_size:
        raise UserError(
            f"{directory}: shows {manifest.slate_size} items at a time, but the slates of this data set have "
            f"{data.slate_size}"
        )
    policy = build_policy(manifest.policy, Catalogue.of(data), manifest.settings)
    load_weights(policy, load_tensors(directory / WEIGHTS), directory / WEIGHTS)
    return policy.eval()
