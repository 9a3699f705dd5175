"""`gfn4rec policy`."""

import json
from collections.abc import Callable

from gfn4rec.policies import POLICIES
from tests.conftest import Cli


def test_list_shows_each_policy_with_its_settings(cli: Cli) -> None:
    result = cli("policy", "list")
    assert result.code == 0
    for name, kind in POLICIES.items():
        assert f"{name}: {kind.description}" in " ".join(result.out.split())
    assert "encoder.dropout" in result.out


def test_list_of_one_as_json(cli: Cli) -> None:
    shown = json.loads(cli("policy", "list", "gfn", "--json").out)
    assert list(shown) == ["gfn"]
    settings = shown["gfn"]["settings"]
    assert settings["b_r"] == {"default": 0.3, "meaning": "Added to the reward inside the logarithm."}
    assert settings["encoder.dropout"]["default"] == 0.0
    for policy in json.loads(cli("policy", "list", "--json").out).values():
        assert all(each["meaning"] and "\n" not in each["meaning"] for each in policy["settings"].values())


def test_an_unknown_policy(fails: Callable[..., str]) -> None:
    assert "no policy 'gnf'; did you mean 'gfn'?" in fails("policy", "list", "gnf")
