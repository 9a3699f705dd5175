"""`gfn4rec policy`."""

import json
from collections.abc import Callable

import pytest

from gfn4rec.config import describe_settings
from gfn4rec.policies import POLICIES
from tests.conftest import Cli


def test_list_has_a_line_per_policy(cli: Cli) -> None:
    result = cli("policy", "list")
    assert result.code == 0
    lines = [line.split(maxsplit=1) for line in result.out.splitlines()]
    assert [(name, text.strip()) for name, text in lines] == [
        (name, policy.description) for name, policy in POLICIES.items()
    ]


def test_list_as_json(cli: Cli) -> None:
    listed = json.loads(cli("policy", "list", "--json").out)
    assert listed == {name: policy.description for name, policy in POLICIES.items()}


def test_show_has_a_line_per_setting(cli: Cli) -> None:
    title, *lines = cli("policy", "show", "gfn").out.splitlines()
    assert title == f"gfn: {POLICIES['gfn'].description}"
    settings = describe_settings(POLICIES["gfn"].Config())
    assert "encoder.dropout" in [setting.key for setting in settings]
    for line, setting in zip(lines, settings, strict=True):
        assert line.split(maxsplit=1)[0] == setting.key
        assert str(setting.default) in line
        assert line.rstrip().endswith(f" {setting.meaning}")
    assert cli("policy", "show", "random").out == f"random: {POLICIES['random'].description}\n"


@pytest.mark.parametrize("name", POLICIES)
def test_show_as_json(cli: Cli, name: str) -> None:
    shown = json.loads(cli("policy", "show", name, "--json").out)
    assert (shown["name"], shown["description"]) == (name, POLICIES[name].description)
    assert all(each["meaning"] and "\n" not in each["meaning"] for each in shown["settings"].values())
    if name == "gfn":
        meaning = "Reward bias: added to the reward inside the logarithm; not used with the energy reward."
        assert shown["settings"]["b_r"] == {"default": 0.3, "meaning": meaning}
        assert shown["settings"]["encoder.dropout"]["default"] == 0.0


def test_an_unknown_policy(fails: Callable[..., str]) -> None:
    assert "no policy 'gnf'; did you mean 'gfn'?" in fails("policy", "show", "gnf")
