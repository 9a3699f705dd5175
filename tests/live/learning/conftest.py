"""What tests of learning and promotion share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.store.store import Store
from tests.live.learning.release import Release


@pytest.fixture
def release(live_data: SlateData, store: Store, tmp_path: Path) -> Release:
    """A new store on each database, and no versions."""
    return Release(live_data, store, tmp_path / "versions")


@pytest.fixture
def on_sqlite(live_data: SlateData, tmp_path: Path) -> Iterator[Release]:
    """The same on SQLite alone, for what does not depend on the database."""
    opened = Store(str(tmp_path / "store.db"))
    yield Release(live_data, opened, tmp_path / "versions")
    opened.close()
