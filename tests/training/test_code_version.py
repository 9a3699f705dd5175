"""A change that moves results raises `CODE_VERSION`, or outcomes of before would be taken for those of now."""

from collections.abc import Callable

import pytest

from gfn4rec.experiments.jobs.job import CODE_VERSION
from gfn4rec.policies import POLICIES, build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.training.group import Group
from gfn4rec.training.online import train_online
from gfn4rec.training.opened_run import Users
from gfn4rec.training.run import Run
from tests.training.conftest import small_settings

KNOWN = {
    1: {
        "cf": 0.702561,
        "boltzmann-cf": 1.123196,
        "rerank-cf": 1.853139,
        "prm": 3.804431,
        "list-cvae": 22.852419,
        "gfn": 10.761835,
        "gfn-energy": 168.694016,
        "gfn-prior": 5.071297,
        "gfn-anchored": 4.676384,
        "gfn-rerank": 14.317949,
    }
}


def test_every_policy_that_learns_is_known() -> None:
    assert set(KNOWN[CODE_VERSION]) == {name for name, policy in POLICIES.items() if policy.is_learned}


@pytest.mark.parametrize("policy", list(KNOWN[CODE_VERSION]))
def test_results_are_those_of_this_version(users: Users, new_run: Callable[..., Run], policy: str) -> None:
    settings = small_settings(policy)
    made = build_policy(policy, Catalogue.of(users.data), settings.policy_settings, settings.seed)
    run = new_run(settings)
    train_online(run, made, users, Group())
    loss = next(line["loss"] for line in run.metrics() if line["step"] == 6)
    known = KNOWN[CODE_VERSION][policy]
    assert loss == pytest.approx(known, rel=1e-3), "results have moved: raise CODE_VERSION, write the new losses here"
