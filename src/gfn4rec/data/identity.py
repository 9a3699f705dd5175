"""Which data set something was made for, and a refusal of any other."""

from pathlib import Path

from gfn4rec.config import StrictConfig
from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError


class DataIdentity(StrictConfig):
    """The data set that weights belong to: whose users, items and behaviours they speak of."""

    name: str
    users_sha256: str
    items_sha256: str
    behaviours: tuple[str, ...]


def identity_of(data: SlateData) -> DataIdentity:
    """What is remembered of a data set."""
    files = data.manifest.files
    return DataIdentity(
        name=data.manifest.name,
        users_sha256=files["users.parquet"].sha256,
        items_sha256=files["items.parquet"].sha256,
        behaviours=data.behaviours,
    )


def refuse_other_data(identity: DataIdentity, data: SlateData, where: Path) -> None:
    """What was made for other users, items or behaviours means nothing here."""
    if identity != identity_of(data):
        raise UserError(
            f"{where}: made for another data set ({identity.name}), not for this {data.manifest.name}; "
            "name the one it was trained on, or train one for this"
        )
