"""Which data set something was made for, and a refusal of any other."""

from pathlib import Path
from typing import Any

from gfn4rec.config import StrictConfig
from gfn4rec.data.manifest import Manifest
from gfn4rec.errors import UserError


class DataIdentity(StrictConfig):
    """The data set that weights belong to: whose users, items and behaviours they speak of."""

    name: str
    users_sha256: str
    items_sha256: str
    behaviours: tuple[str, ...]


def identity_of(data: Manifest) -> DataIdentity:
    """What is remembered of a data set."""
    return DataIdentity(
        name=data.name,
        users_sha256=data.files["users.parquet"].content_sha256,
        items_sha256=data.files["items.parquet"].content_sha256,
        behaviours=tuple(each.name for each in data.behaviours),
    )


def content_of(data: Manifest) -> dict[str, Any]:
    """All that results depend on: every file, what behaviours earn, how slates were cut and split."""
    return {
        "files": {name: entry.content_sha256 for name, entry in data.files.items()},
        "weights": {each.name: each.weight for each in data.behaviours},
        "settings": data.settings.model_dump(mode="json"),
    }


def refuse_other_data(identity: DataIdentity, data: Manifest, where: Path) -> None:
    """What was made for other users, items or behaviours means nothing here."""
    if identity != identity_of(data).model_copy(update={"name": identity.name}):  # copies may have names of their own
        raise UserError(
            f"{where}: made for another data set ({identity.name}), not for this {data.name}; "
            "name the one it was trained on, or train one for this"
        )
