"""Amazon reviews as JSON lines, in the layouts of 2018 and 2023: a file of reviews, and perhaps one about the items."""

import re
from dataclasses import dataclass
from pathlib import Path

from gfn4rec.data.interactions import Behaviour, Feature, FeatureTable, Interactions, at_least
from gfn4rec.data.table_file import TableFile
from gfn4rec.data.tables import read_table
from gfn4rec.errors import UserError

THRESHOLDS = {"like": 4, "star": 5}
_REVIEWS = re.compile(r"(?!meta_)(?P<category>.+?)(_5)?\.jsonl?(\.gz)?")


@dataclass(frozen=True)
class _Columns:
    user: str
    item: str
    rating: str
    time: str
    categories: str  # in the file about the items


COLUMNS = {
    2018: _Columns("reviewerID", "asin", "overall", "unixReviewTime", "category"),
    2023: _Columns("user_id", "parent_asin", "rating", "timestamp", "categories"),
}


def read_amazon(raw: Path, year: int) -> Interactions:
    """Read the only file of reviews in `raw`, and `meta_<category>` if it is there."""
    names = COLUMNS[year]
    path, metadata = _files(raw)
    reviews = TableFile(path, is_published=True)
    kept = {"user": names.user, "item": names.item, "time": names.time}
    log = read_table(reviews, {names.user: "text", names.item: "text", names.time: "integer", names.rating: "number"})
    return Interactions(
        log=log.select(**kept, **{name: at_least(names.rating, threshold) for name, threshold in THRESHOLDS.items()}),
        behaviours=tuple(Behaviour(name) for name in THRESHOLDS),
        items=None if metadata is None else _items(metadata, names),
        raw_files=(reviews.record(log.height), *([metadata.record()] if metadata else [])),
        raw_columns=kept | dict.fromkeys(THRESHOLDS, names.rating),
    )


def _files(raw: Path) -> tuple[Path, TableFile | None]:
    """Return the file of reviews, and that about the items if there is one."""
    found = {path: match["category"] for path in sorted(raw.iterdir()) if (match := _REVIEWS.fullmatch(path.name))}
    if len(found) != 1:
        listed = ", ".join(path.name for path in found) or "no reviews (.json.gz or .jsonl.gz)"
        raise UserError(f"{raw}: holds {listed}; --raw names a folder with one file of reviews")
    (path, category), *_ = found.items()
    metadata = sorted(raw.glob(f"meta_{category}.json*"))
    return path, TableFile(metadata[0], is_published=True) if metadata else None


def _items(file: TableFile, names: _Columns) -> FeatureTable:
    """Return titles and categories; of several lines about an item, as there are in 2018, the first counts."""
    table = read_table(file, {names.item: "text", "title": "text", names.categories: "list"})
    items = table.select("title", id=names.item, categories=names.categories)
    return FeatureTable(
        items.unique("id", keep="first", maintain_order=True).lazy(), (Feature("categories", "multi"),), file.path.name
    )
