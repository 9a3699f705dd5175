"""Which data set something was trained for, so that it is not used with another."""

from pathlib import Path

from pydantic import Field

from gfn4rec.config import ADDED_LATER, GrownConfig, StrictConfig
from gfn4rec.data.manifest import Manifest, PrepareConfig
from gfn4rec.errors import UserError


class DataIdentity(GrownConfig):
    """The data set that weights belong to, by its users, items and behaviours, and what its histories hold."""

    name: str
    users_sha256: str
    items_sha256: str
    behaviours: tuple[str, ...]
    histories: tuple[str, ...] = Field(default=(), json_schema_extra=ADDED_LATER)


class DataContent(StrictConfig):
    """What results depend on: checksums of the files, weights of behaviours, how slates were cut and split."""

    files: dict[str, str]
    weights: dict[str, float]
    settings: PrepareConfig


def identity_of(data: Manifest) -> DataIdentity:
    """Return what weights remember of the data set they were trained for."""
    return DataIdentity(
        name=data.name,
        users_sha256=data.files["users.parquet"].content_sha256,
        items_sha256=data.files["items.parquet"].content_sha256,
        behaviours=tuple(behaviour.name for behaviour in data.behaviours),
        histories=data.histories,
    )


def content_of(data: Manifest) -> DataContent:
    """Return all that results depend on: checksums of files, weights of behaviours, how slates were cut and split."""
    return DataContent(
        files={name: entry.content_sha256 for name, entry in data.files.items()},
        weights={behaviour.name: behaviour.weight for behaviour in data.behaviours},
        settings=data.settings,
    )


def refuse_other_data(identity: DataIdentity, data: Manifest, where: Path) -> None:
    """Raise an error unless the data set has the users, items, behaviours and histories that `where` was made for."""
    own = identity_of(data).model_copy(update={"name": identity.name})  # copies may have other names
    if identity.histories != own.histories and identity == own.model_copy(update={"histories": identity.histories}):
        before, now = (" ".join(histories) or "whole logs" for histories in (identity.histories, own.histories))
        raise UserError(
            f"{where}: made for other histories ({before}) than those of {data.name} ({now}); "
            "name the data set it was trained on, or train one for this"
        )
    if identity != own:
        raise UserError(
            f"{where}: made for another data set ({identity.name}), not for this {data.name}; "
            "name the one it was trained on, or train one for this"
        )
