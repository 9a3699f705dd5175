"""The item influence of a data set is stored with it; its name says it only for data prepared before that."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import content_of, identity_of
from gfn4rec.data.interactions import Behaviour, Interactions
from gfn4rec.data.kuairand_files import write_kuairand
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.storage import read_manifest
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError
from tests.conftest import Cli, make_interactions

CONFIG = PrepareConfig(core=1, slate_size=2)
LOG = make_interactions([(user, item, item, item % 2) for user in range(4) for item in range(30)]).log
CLICK = (Behaviour("click"),)


def forget_rho(directory: Path) -> None:
    """Rewrite a manifest as it was written before it had a rho."""
    path = directory / "manifest.json"
    values = json.loads(path.read_text())
    del values["rho"], values["sha256"]
    checksum = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({"sha256": checksum} | values))


@pytest.mark.parametrize(("name", "rho"), [("kuairand-1k", 0.1), ("ml-1m", 0.2), ("shop", 0.2)])
def test_a_manifest_without_rho_has_that_of_its_name(tmp_path: Path, name: str, rho: float) -> None:
    prepare(Interactions(LOG, CLICK, rho=0.7), CONFIG, tmp_path / "out", name)
    assert read_manifest(tmp_path / "out").rho == 0.7
    forget_rho(tmp_path / "out")
    assert read_manifest(tmp_path / "out").rho == rho


def test_rho_survives_preparing_again_and_tells_no_data_sets_apart(tmp_path: Path) -> None:
    plain, strong = (prepare(Interactions(LOG, CLICK, rho=rho), CONFIG, tmp_path / str(rho), "x") for rho in (0.2, 0.7))
    assert prepare(SlateData.open(tmp_path / "0.7").interactions(), CONFIG, tmp_path / "again", "x") == strong
    assert content_of(plain) == content_of(strong)
    assert identity_of(plain) == identity_of(strong)


@pytest.mark.parametrize("rho", [-0.1, float("nan"), float("inf")])
def test_a_rho_that_cannot_be(rho: float) -> None:
    with pytest.raises(UserError, match="rho is .*; write a finite number of at least 0"):
        Interactions(LOG, CLICK, rho=rho)


def test_a_published_data_set_has_the_rho_of_the_paper(cli: Cli, tmp_path: Path) -> None:
    config = PRESETS["kr1k"].model_copy(update={"num_users": 10, "num_items": 20, "num_rows": 3_000})
    write_kuairand(generate(config)[1], tmp_path / "raw")
    result = cli("data", "prepare", "kuairand-1k", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--json")
    assert json.loads(result.out)["rho"] == read_manifest(tmp_path / "out").rho == 0.1


@pytest.mark.parametrize(("line", "rho"), [("", 0.2), ("rho = 0.35\n", 0.35)])
def test_a_simulator_of_an_own_log_takes_the_rho_of_its_description(
    cli: Cli, tmp_path: Path, line: str, rho: float
) -> None:
    LOG.with_columns(click=LOG["click"].cast(int)).write_csv(tmp_path / "log.csv")
    toml = tmp_path / "kuairand-1k.toml"  # a name that says something else
    toml.write_text(line + '[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { column = "click" }\n')
    sizes = ("--core", 1, "--slate-size", 2, "--val-slates", 1)
    assert cli("data", "prepare", toml, "--out", tmp_path / "data", *sizes).code == 0
    assert f"Item influence (rho) of its simulators: {rho:g}" in cli("data", "describe", tmp_path / "data").out
    (tmp_path / "model.toml").write_text("num_epochs = 1\nbatch_windows = 2\n[model]\ndim = 8\nnum_heads = 2\n")
    train = ("simulator", "train", tmp_path / "data", "--config", tmp_path / "model.toml")
    for out, option, expected in (("own", (), rho), ("other", ("--rho", 0.9), 0.9)):
        assert cli(*train, "--out", tmp_path / out, *option).code == 0
        assert json.loads((tmp_path / out / "manifest.json").read_text())["rho"] == expected


def test_a_description_with_a_rho_that_cannot_be(fails: Callable[..., str], tmp_path: Path) -> None:
    toml = tmp_path / "own.toml"
    toml.write_text('rho = -1\n[log]\nfiles = ["log.csv"]\n[behaviours]\nclick = { column = "click" }\n')
    line = fails("data", "prepare", toml, "--out", tmp_path / "out")
    assert "own.toml: rho: Input should be greater than or equal to 0, got -1" in line
