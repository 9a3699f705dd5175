"""Weights on disk: safetensors, or PyTorch checkpoints read as tensors only, so that no pickle can run code."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import TypeVar

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gfn4rec.config import StrictConfig
from gfn4rec.errors import UserError
from gfn4rec.storage import MANIFEST, replace_directory

AnyManifest = TypeVar("AnyManifest", bound="DirectoryManifest")


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file or a PyTorch checkpoint; a pickle that would run code is refused."""
    try:
        return load_file(path) if path.suffix == ".safetensors" else _load_checkpoint(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a complete file of weights ({error})") from error


def _load_checkpoint(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings(action="ignore"):  # about other pickle protocols, which are refused anyway
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: refused; not a plain PyTorch checkpoint of tensors ({reason[:120]})") from None
    weights = content.get("model_state_dict", content) if isinstance(content, dict) else None
    if not isinstance(weights, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in weights.items()
    ):
        raise UserError(f"{path}: holds no state_dict of tensors")
    return weights


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file; a failure raises `OSError`, as with any other file."""
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def load_weights(model: nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    """Load weights into a model; a wrong name, shape or value is an error that names the tensor."""
    expected = model.state_dict()
    for name in sorted(expected.keys() ^ weights.keys()):
        raise UserError(f"{where}: {'lacks' if name in expected else 'has an unknown tensor'} {name!r}")
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)}, but the data set needs {tuple(expected[name].shape)}"
            raise UserError(f"{where}: {name!r} has shape {shapes}; it was made for another data set")
        if tensor.layout != torch.strided or tensor.is_complex():
            raise UserError(f"{where}: {name!r} is not a plain tensor of real numbers")
        if not torch.isfinite(tensor).all():
            raise UserError(f"{where}: {name!r} holds NaN or infinite values")
    model.load_state_dict(weights)


class DirectoryManifest(StrictConfig):
    """The part of `manifest.json` that all directories of weights have."""

    format: str
    version: int
    files: dict[str, str] = Field(default_factory=dict)  # name -> SHA-256, filled in by `write_directory`


def write_directory(
    directory: Path,
    manifest: AnyManifest,
    tensors: dict[str, dict[str, Tensor]],
    texts: dict[str, bytes] | None = None,
) -> AnyManifest:
    """Write tensors, other files, and the manifest with their checksums; either all of it is written or nothing."""
    with replace_directory(directory, manifest.format) as fresh:
        for name, values in tensors.items():
            save_tensors(fresh / name, values)
        for name, content in (texts or {}).items():
            (fresh / name).write_bytes(content)
        files = {path.name: _sha256(path) for path in sorted(fresh.iterdir())}
        manifest = manifest.model_copy(update={"files": files})
        text = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
        (fresh / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return manifest


def check_files(directory: Path, files: dict[str, str], remedy: str) -> None:
    """Refuse a directory in which a file is missing or differs from its checksum."""
    for name, digest in files.items():
        path = directory / name
        if not path.is_file() or _sha256(path) != digest:
            raise UserError(f"{path}: missing or damaged; {remedy}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
