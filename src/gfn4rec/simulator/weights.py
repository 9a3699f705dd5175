"""Weights from files: safetensors, or PyTorch checkpoints read as tensors only. Nothing is ever unpickled into code."""

import pickle
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from gfn4rec.errors import UserError


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a PyTorch checkpoint; a pickle that would run code is refused."""
    try:
        return load_file(path) if path.suffix == ".safetensors" else _load_checkpoint(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole file of weights ({error})") from error


def _load_checkpoint(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings(action="ignore"):  # about pickles of other protocols, which are refused anyway
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: refused; not a plain PyTorch checkpoint of tensors ({reason[:120]})") from None
    weights = content.get("model_state_dict", content) if isinstance(content, dict) else None
    if not isinstance(weights, dict) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise UserError(f"{path}: holds no state_dict of tensors")
    return weights


def load_weights(model: nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    """Put weights into a model; a name, a shape or a value that does not fit is an error that names it."""
    expected = model.state_dict()
    for name in sorted(expected.keys() ^ weights.keys()):
        raise UserError(f"{where}: {'lacks' if name in expected else 'has an unknown tensor'} {name!r}")
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(tensor.shape)}, but the data set wants {tuple(expected[name].shape)}"
            raise UserError(f"{where}: {name!r} has shape {shapes}; it was made for another data set")
        if not torch.isfinite(tensor).all():
            raise UserError(f"{where}: {name!r} holds values that are not finite numbers")
    model.load_state_dict(weights)
