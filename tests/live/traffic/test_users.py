"""Simulated users at a service respond as those of an environment do, list effects included."""

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.traffic.users import Responses, Shown, SimulatedUsers
from gfn4rec.simulator.environment import EnvironmentConfig
from gfn4rec.training.opened_run import Users
from tests.simulator.conftest import FixedUsers


def respond(data: SlateData, base: float, items: list[str], **effects: float) -> list[Responses]:
    """Return the responses of 40 users who respond to every item with the probability `base`."""
    model = FixedUsers(data)
    model.base_NR = torch.full_like(model.base_NR, base)
    config = EnvironmentConfig.parse({"rho": 0.0, "slate_size": len(items), **effects}, "users")
    users = SimulatedUsers(Users(data, model, config), num_users=40, seed=0)
    return users.respond([Shown(visit, visit, tuple(items)) for visit in range(40)])


def test_a_user_stops_after_the_first_response_but_not_at_an_unknown_item(data: SlateData) -> None:
    items = [str(raw) for raw in data.items["id"].to_list()[:2]]
    for responses in respond(data, 1.0, ["nowhere", *items], cascade=1.0):
        assert [len(behaviours) for behaviours in responses.behaviours] == [0, len(data.behaviours), 0]
        assert responses.num_unknown == 1
        assert responses.reward == pytest.approx(float(data.weight_R.sum()) / 3)
        assert responses.expected_reward == pytest.approx(responses.reward)


def test_effects_that_are_off_change_no_draw_and_a_user_who_stops_only_loses_responses(data: SlateData) -> None:
    items = [str(raw) for raw in data.items["id"].to_list()[:3]]
    plain, same = respond(data, 0.5, items), respond(data, 0.5, items, cascade=0.0)
    assert plain == same
    cut = respond(data, 0.5, items, position_decay=0.5)
    num_cut = [0, 0, 0]
    for before, after in zip(plain, cut, strict=True):
        for place in range(3):
            assert after.behaviours[place] in (before.behaviours[place], ())
            num_cut[place] += after.behaviours[place] != before.behaviours[place]
        assert after.expected_reward == pytest.approx(before.expected_reward * (1 + 0.5 + 0.25) / 3)
    assert num_cut[0] == 0
    assert 8 < num_cut[1] < num_cut[2]
