"""A policy on disk is the policy, or one clear line."""

import json
from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_weights
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.checkpoint import WEIGHTS, load_policy, save_policy


@pytest.fixture
def saved(data: SlateData, tmp_path: Path) -> Path:
    save_policy(tmp_path / "policy", build_policy("cf", Catalogue.of(data)), data)
    return tmp_path / "policy"


def test_a_data_set_of_another_vocabulary_is_refused(saved: Path, tmp_path: Path) -> None:
    prepare(generate(PRESETS["tiny"], seed=9)[1], PrepareConfig(), tmp_path / "other", "synthetic-other")
    with pytest.raises(UserError, match="made for another data set .synthetic-tiny., not for this synthetic-other"):
        load_policy(saved, SlateData.open(tmp_path / "other"))


def test_another_slate_size_is_refused(saved: Path, tmp_path: Path) -> None:
    log = generate(PRESETS["tiny"], seed=1)[1]
    prepare(log, PrepareConfig(slate_size=4), tmp_path / "four", "synthetic-tiny")
    with pytest.raises(UserError, match="shows 6 items at a time, but the slates of this data set have 4"):
        load_policy(saved, SlateData.open(tmp_path / "four"))


def test_a_damaged_file_is_refused(saved: Path, data: SlateData) -> None:
    content = bytearray((saved / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (saved / WEIGHTS).write_bytes(content)
    with pytest.raises(UserError, match=f"{WEIGHTS}: missing or damaged"):
        load_policy(saved, data)


def test_a_directory_of_something_else_is_refused(data: SlateData, data_folder: Path) -> None:
    with pytest.raises(UserError, match="not a policy; make one with `gfn4rec train`"):
        load_policy(data_folder, data)


def test_weights_that_are_not_finite_are_refused(data: SlateData, tmp_path: Path) -> None:
    policy = build_policy("cf", Catalogue.of(data))
    with torch.no_grad():
        next(policy.parameters()).view(-1)[0] = torch.nan
    save_policy(tmp_path / "policy", policy, data)
    with pytest.raises(UserError, match="holds values that are not finite numbers"):
        load_policy(tmp_path / "policy", data)


def test_weights_of_another_shape_or_name_are_refused(data: SlateData, tmp_path: Path) -> None:
    policy = build_policy("cf", Catalogue.of(data))
    weights = policy.state_dict()
    name = next(iter(weights))
    for changed, message in (
        ({**weights, name: weights[name][:-1]}, "has shape"),
        ({**weights, "more": torch.zeros(1)}, "has an unknown tensor 'more'"),
        ({key: value for key, value in weights.items() if key != name}, "lacks"),
        ({**weights, name: weights[name].to(torch.complex64)}, "not a plain tensor of real numbers"),
    ):
        with pytest.raises(UserError, match=message):
            load_weights(policy, changed, tmp_path)


def test_the_same_users_with_other_items_are_refused(saved: Path, data: SlateData) -> None:
    manifest = json.loads((saved / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["data"]["items_sha256"] != manifest["data"]["users_sha256"]
    manifest["data"]["items_sha256"] = "0" * 64
    (saved / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(UserError, match="made for another data set"):
        load_policy(saved, data)
