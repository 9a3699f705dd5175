"""What is searched: the paper's values, of settings that there are."""

import pytest

from gfn4rec.errors import UserError
from gfn4rec.experiments.search.spaces import OWN, grid_of, points_of, start_of
from gfn4rec.policies import POLICIES
from gfn4rec.training.config import Mode, resolve_settings

LEARNED = [name for name, policy in POLICIES.items() if policy.is_learned]


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("policy", LEARNED)
def test_every_value_is_a_setting(policy: str, mode: Mode) -> None:
    for key, values in grid_of(policy, mode).items():
        assert len(set(values)) == len(values) >= 3
        for value in values:
            settings = resolve_settings(mode, policy, changes={key: value})
            values_by_table = settings.model_dump(mode="json")
            assert {**values_by_table["training"], **values_by_table["policy_settings"]}[key] == value


def test_every_grid_is_of_a_policy() -> None:
    assert set(OWN) <= set(LEARNED)


def test_the_papers_values() -> None:
    common = {"learning_rate": (1e-3, 1e-4, 1e-5), "weight_decay": (1e-4, 1e-5, 0.0)}
    assert grid_of("cf", "offline") == grid_of("rerank-cf") == common
    assert grid_of("list-cvae") == {**common, "beta": (1.0, 0.1, 0.01, 0.001)}
    assert grid_of("prm", "offline") == {**common, "pv_weight": (1.0, 0.1, 0.01)}
    assert grid_of("cf") == {**common, "temperature": (0.0, 0.1, 1.0)}  # not in the paper, where it is 0
    offsets = {"b_r": (0.1, 0.3, 1.0, 1.5), "b_f": (0.1, 0.5, 1.0, 1.5, 2.0), "b_z": (0.1, 0.5, 1.0, 1.5)}
    assert grid_of("gfn") == grid_of("gfn-rerank") == {**common, **offsets}


def test_other_values_take_the_place_of_the_policys() -> None:
    grid = grid_of("list-cvae", "online", {"beta": 0.5}, {"learning_rate": (0.1, 0.2), "dropout": (0.0, 0.3)})
    assert list(grid.items()) == [
        ("learning_rate", (0.1, 0.2)),
        ("weight_decay", (1e-4, 1e-5, 0.0)),
        ("dropout", (0.0, 0.3)),
    ]


def test_what_is_set_has_no_values_to_try() -> None:
    with pytest.raises(UserError, match="learning_rate: is both set and searched; use either --set or --values"):
        grid_of("gfn", "online", {"training.learning_rate": 0.5}, {"learning_rate": (0.1, 0.2)})


def test_what_matters_least_comes_last() -> None:
    assert list(grid_of("prm")) == ["learning_rate", "temperature", "pv_weight", "weight_decay"]


def test_all_combinations() -> None:
    points = points_of({"a": (1.0, 2.0), "b": (3.0, 4.0, 5.0)})
    assert points[:2] == [{"a": 1.0, "b": 3.0}, {"a": 1.0, "b": 4.0}]
    assert len(points) == 6
    assert len(points_of(grid_of("gfn"))) == 3 * 3 * 4 * 5 * 4


def test_the_start_is_the_nearest_combination() -> None:
    start = {"learning_rate": 1e-3, "weight_decay": 0.0, "b_r": 0.3, "b_f": 0.5, "b_z": 1.0}
    assert start_of(grid_of("gfn"), resolve_settings("online", "gfn")) == start
    assert start_of(grid_of("gfn-energy"), resolve_settings("online", "gfn-energy"))["learning_rate"] == 2e-3
    other = resolve_settings("online", "gfn", changes={"learning_rate": 3e-4, "b_f": 1.9})
    assert start_of(grid_of("gfn"), other) == {**start, "learning_rate": 1e-4, "b_f": 2.0}


def test_what_is_decided_is_not_searched() -> None:
    assert set(grid_of("prm", "offline", {"training.learning_rate": 0.1, "pv_weight": 0.2, "num_steps": 9})) == {
        "weight_decay"
    }
    with pytest.raises(UserError, match="all of learning_rate, weight_decay are set; leave one of them"):
        grid_of("cf", "offline", {"learning_rate": 0.1, "weight_decay": 0.0})
    with pytest.raises(UserError, match="policy random is not trained"):
        grid_of("random")
    with pytest.raises(UserError, match="no policy 'cff'; did you mean 'cf'?"):
        grid_of("cff")
