"""Directories: whole or not at all, and never opened if something is wrong with them."""

import errno
import hashlib
import json
import math
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.storage import content_digest, read_manifest
from gfn4rec.errors import UserError
from tests.conftest import make_interactions

CONFIG = PrepareConfig(core=1, slate_size=2)


def write(out: Path, num_items: int = 6) -> None:
    prepare(make_interactions([(1, item, item, 1) for item in range(num_items)]), CONFIG, out, "x")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    write(tmp_path / "out")
    return tmp_path / "out"


def edit_manifest(directory: Path, **changes: object) -> None:
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def cut_log(directory: Path) -> None:
    path = directory / "log.parquet"
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda out: (out / "manifest.json").unlink(),
            "not a prepared data set (no manifest.json in it); make one with `gfn4rec data prepare`",
        ),
        (lambda out: (out / "manifest.json").write_text('{"format'), "manifest.json: damaged"),
        (lambda out: (out / "manifest.json").write_text("[1]"), "not a prepared data set"),
        (lambda out: (out / "manifest.json").write_bytes(b"\xff\xfe"), "manifest.json: damaged"),
        (lambda out: edit_manifest(out, format="another tool's"), "not a prepared data set"),
        (lambda out: edit_manifest(out, version=3), "format version 3, but this gfn4rec reads version 2"),
        (lambda out: edit_manifest(out, version=1), "format version 1, but this gfn4rec reads version 2"),
        (lambda out: edit_manifest(out, settings={"slate_size": 3}), "manifest.json: damaged or edited"),
        (lambda out: edit_manifest(out, colour="red"), "manifest.json: damaged or edited"),
        (cut_log, "log.parquet: missing or damaged"),
        (lambda out: (out / "items.parquet").unlink(), "items.parquet: missing or damaged"),
        (lambda out: (out / "slates.parquet").write_bytes((out / "log.parquet").read_bytes()), "slates.parquet"),
    ],
)
def test_a_damaged_foreign_or_newer_directory_is_not_opened(
    prepared: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(prepared)
    with pytest.raises(UserError) as error:
        SlateData.open(prepared)
    assert message in str(error.value)
    assert str(prepared) in str(error.value)


TABLE = pl.DataFrame(
    {"id": ["a", "b"], "tags": [[1, 2], []], "length": [0.5, None], "click": [True, False]},
    schema_overrides={"tags": pl.List(pl.UInt32)},
)


def test_a_content_digest_is_written_down() -> None:
    """Another version of a library must not change it: results are found by it."""
    values = b'id\0String\0["a", "b"]tags\0List(UInt32)\0[[1, 2], []]'
    values += b"length\0Float64\0" + struct.pack("<2d", 0.5, math.nan) + b"click\0Boolean\0\x01\x00"
    assert content_digest(TABLE) == hashlib.sha256(values).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        TABLE.reverse(),
        TABLE.rename({"id": "name"}),
        TABLE.select("tags", "id", "length", "click"),
        TABLE.with_columns(tags=pl.Series([[1], [2]], dtype=pl.List(pl.UInt32))),
        TABLE.with_columns(length=pl.Series([0.5, 0.0])),
        TABLE.with_columns(click=pl.Series([True, True])),
    ],
)
def test_a_content_digest_tells_tables_apart(other: pl.DataFrame) -> None:
    assert content_digest(other) != content_digest(TABLE)


def test_the_manifest_has_the_content_of_its_tables(prepared: Path) -> None:
    for name, entry in read_manifest(prepared).files.items():
        assert entry.content_sha256 == content_digest(pl.read_parquet(prepared / name))


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: not a prepared data set"):
        read_manifest(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: not a prepared data set"):
        read_manifest(tmp_path / "file")


def test_an_earlier_data_set_is_replaced_and_nothing_else_is_left(prepared: Path) -> None:
    write(prepared, num_items=8)
    assert SlateData.open(prepared).num_items == 8
    assert [path.name for path in prepared.parent.iterdir()] == ["out"]
    assert prepared.stat().st_mode & 0o777 == 0o755


def test_what_is_not_a_data_set_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")  # an empty folder may be
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text("{}")
    (tmp_path / "file").write_text("text")
    before = contents(tmp_path)
    for name in ("home", "other", "file"):
        with pytest.raises(UserError, match=f"{name}: exists and is not a data set; choose another --out"):
            write(tmp_path / name)
    assert contents(tmp_path) == before


@pytest.fixture
def locked_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder this process may not write in. Root may write anywhere, so it is nobody for a while."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    yield locked
    if is_root:
        os.seteuid(0)


def test_no_permission_to_write(locked_folder: Path) -> None:
    with pytest.raises(UserError, match="out: cannot be written .*Permission denied.*; choose another --out"):
        write(locked_folder / "out")


def test_other_files_in_a_data_set_are_not_thrown_away(prepared: Path) -> None:
    (prepared / "notes.md").write_text("mine")
    before = contents(prepared.parent)
    with pytest.raises(UserError, match="out: holds notes.md, which would be lost; move it, or choose another --out"):
        write(prepared, num_items=8)
    assert contents(prepared.parent) == before


def test_a_link_goes_on_pointing_where_it_points(prepared: Path) -> None:
    link = prepared.parent / "link"
    link.symlink_to(prepared)
    write(link, num_items=8)
    assert link.is_symlink()
    assert SlateData.open(prepared).num_items == 8


def test_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write(Path())
    assert SlateData.open(tmp_path / "here").num_items == 6
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["old goes", "new comes"])
def test_a_swap_that_fails_or_is_interrupted_brings_the_old_directory_back(
    prepared: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, step: str
) -> None:
    before = contents(prepared.parent)
    rename = Path.rename

    def broken(self: Path, target: Path) -> Path:
        is_old = target.name == "old"
        if (step == "old goes" and is_old) or (step == "new comes" and target == prepared and self.name != "old"):
            raise failure
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises((UserError, KeyboardInterrupt)):
        write(prepared, num_items=8)
    assert contents(prepared.parent) == before
    assert [path.name for path in prepared.parent.iterdir()] == ["out"]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out: cannot be written"):
        write(tmp_path / "file" / "out")


@pytest.mark.parametrize("failing", ["storage._write_table", "prepare.write_manifest"])
def test_a_full_disk_leaves_the_old_directory(prepared: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    before = contents(prepared.parent)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"gfn4rec.data.{failing}", full)
    with pytest.raises(UserError, match="out: writing failed, what was there before is untouched .*No space left"):
        write(prepared, num_items=8)
    assert contents(prepared.parent) == before


def test_a_write_that_really_fails(prepared: Path) -> None:
    """A limit on the size of files, set in a process of its own, stops polars in the middle of a table."""
    before = contents(prepared.parent)
    program = (
        "import sys; from gfn4rec.cli import main; "
        f"sys.exit(main(['data', 'prepare', 'synthetic-small', '--force', '--out', {str(prepared)!r}]))"
    )
    limit = 20_000
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "writing failed, what was there before is untouched" in ended.stderr
    assert contents(prepared.parent) == before


def test_the_parquet_files_are_plain_ones(prepared: Path) -> None:
    manifest = read_manifest(prepared)
    assert sorted(manifest.files) == ["items.parquet", "log.parquet", "slates.parquet", "users.parquet"]
    assert pl.read_parquet(prepared / "log.parquet").columns == ["user", "item", "time", "click", "in_slate"]
