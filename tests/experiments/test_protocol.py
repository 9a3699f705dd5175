"""Which runs an experiment has, and with which settings."""

from dataclasses import replace
from typing import TypeAlias

import pytest

from gfn4rec.errors import UserError
from gfn4rec.experiments.paper.models import ABLATIONS, ALTERNATIVES, AUTHORS, FAIR
from gfn4rec.experiments.paper.protocol import BUDGETS, Need, Protocol, read_protocol
from gfn4rec.training.config import Mode

ByMode: TypeAlias = dict[Mode, dict[str, dict[str, float]]]


def test_the_paper_budget_is_the_papers_protocol() -> None:
    (job, *others) = Protocol(BUDGETS["paper"]).jobs(("online", "PRM"))
    assert len(others) == 4
    training = job.settings.training.model_dump()
    assert (training["num_steps"], training["learning_batch"], training["warmup_steps"]) == (5000, 128, 100)
    assert (training["schedule"], training["buffer_size"], training["newest_share"]) == ("constant", 50_000, 0.5)
    assert job.num_batches == 100
    assert [other.settings.seed for other in others] == [1, 2, 3, 4]
    assert Protocol(BUDGETS["paper"]).jobs(("offline", "PRM"))[0].settings.training.model_dump()["num_steps"] == 10_000


def test_sweeps_fix_the_other_settings() -> None:
    tuned = Protocol(
        BUDGETS["paper"], tuned={"online": {"gfn": {"b_r": 0.05, "b_f": 0.05, "b_z": 2.0, "weight_decay": 0.1}}}
    )
    found = tuned.jobs(("online", "b_f = 0.3"))[0].settings
    assert {key: found.policy_settings.model_dump()[key] for key in ("b_f", "b_r", "b_z")} == {
        "b_f": 0.3,
        "b_r": 0.5,
        "b_z": 1.0,
    }
    assert found.training.model_dump()["weight_decay"] == 0.1
    found = tuned.jobs(("online", "b_r = 0.7"))[0].settings
    assert {key: found.policy_settings.model_dump()[key] for key in ("b_f", "b_r", "b_z")} == {
        "b_f": 1.0,
        "b_r": 0.7,
        "b_z": 1.0,
    }


def test_the_rival_learns_as_the_energy_gfn_does() -> None:
    protocol = Protocol(BUDGETS["paper"])
    ours, rival = (protocol.jobs(("online", name))[0].settings.training for name in ("Energy GFN", "Boltzmann CF"))
    assert ours == rival
    assert Protocol(BUDGETS["paper"], tuned={"online": {"boltzmann-cf": {"learning_rate": 0.007}}}).jobs(
        ("online", "Boltzmann CF")
    )[0].settings.training == ours.model_copy(update={"learning_rate": 0.007})


def test_studies_have_the_same_terms_and_one_thing_changed() -> None:
    protocol = Protocol(BUDGETS["paper"])
    ours = protocol.jobs(("online", FAIR["Energy GFN"]))[0].settings
    assert ours.training.model_dump()["num_steps"] == 1000
    for name, fair in FAIR.items():
        shown = {"temperature": 0.1} if name == "CF" else {}
        assert protocol.jobs(("online", fair))[0].settings.training == ours.training.model_copy(update=shown)
    for name, changes in {**ABLATIONS, **ALTERNATIVES}.items():
        found = protocol.jobs(("online", name))[0].settings
        merged = {**found.training.model_dump(mode="json"), **found.policy_settings.model_dump(mode="json")}
        expected = {**ours.training.model_dump(mode="json"), **ours.policy_settings.model_dump(mode="json"), **changes}
        assert merged == expected
        assert merged != {**ours.training.model_dump(mode="json"), **ours.policy_settings.model_dump(mode="json")}


def test_what_a_row_says_is_not_changed() -> None:
    protocol = read_protocol("quick", 1, changes=["b_f=0.25", "objective=db"])
    settings = protocol.jobs(("online", "b_f = 0.9"))[0].settings.policy_settings.model_dump()
    assert (settings["b_f"], settings["objective"]) == (0.9, "tb")
    assert protocol.jobs(("online", "GFN4Rec"))[0].settings.policy_settings.model_dump()["objective"] == "tb"
    assert protocol.jobs(("online", "trajectory balance"))[0].settings.policy_settings.model_dump()["objective"] == "tb"
    with_tables = read_protocol("quick", 1, changes=["settings.b_r=0.9", "training.learning_rate=0.9"])
    tuned: ByMode = {"online": {"gfn": {"b_r": 0.1}, "gfn-energy": {"learning_rate": 0.2}}}
    found = replace(with_tables, tuned=tuned)
    assert found.jobs(("online", "b_f = 0.9"))[0].settings.policy_settings.model_dump()["b_r"] == 0.5
    assert found.jobs(("online", "learning rate 0.003"))[0].settings.training.model_dump()["learning_rate"] == 3e-3
    assert found.jobs(("online", "GFN4Rec"))[0].settings.policy_settings.model_dump()["b_r"] == 0.9


def test_the_authors_settings_are_those_of_their_scripts() -> None:
    """Whatever a search has found."""
    tuned = {"cf": {"learning_rate": 0.01}, "CF": {"weight_decay": 0.3}, "list-cvae": {"beta": 1.0}}
    protocol = Protocol(BUDGETS["paper"], tuned={"online": tuned})
    cf, cvae, prm, gfn = (protocol.jobs(("online", name))[0].settings for name in AUTHORS.values())
    assert (
        cf.policy_settings.model_dump()["probability"],
        cf.policy_settings.model_dump()["offsets"],
    ) == ("softmax", (0.4, 0.1))
    assert [each.training.model_dump()["learning_rate"] for each in (cf, cvae, prm, gfn)] == [
        3e-4,
        1e-5,
        1e-4,
        3e-4,
    ]
    assert [each.training.model_dump()["weight_decay"] for each in (cf, cvae, prm, gfn)] == [
        1e-4,
        1e-4,
        0.0,
        0.0,
    ]
    assert (
        cvae.policy_settings.model_dump()["beta"],
        prm.policy_settings.model_dump()["pv_weight"],
    ) == (0.1, 0.1)
    assert (
        gfn.policy_settings.model_dump()["b_r"],
        gfn.policy_settings.model_dump()["b_f"],
        gfn.policy_settings.model_dump()["b_z"],
    ) == (0.3, 0.5, 1.0)
    for each in (cf, cvae, prm, gfn):
        assert each.policy_settings.model_dump()["encoder"]["dropout"] == 0.1
        assert (
            each.training.model_dump()["newest_share"],
            each.training.model_dump()["num_steps"],
        ) == (0.0, 5000)


def test_what_models_show_while_they_learn() -> None:
    """What is found for a policy changes neither CF that shows its top K nor the terms that models share."""
    tuned = {"cf": {"temperature": 0.3}, "prm": {"temperature": 0.5}, FAIR["PRM"]: {"temperature": 0.7}}
    protocol = Protocol(BUDGETS["quick"], tuned={"online": tuned})
    shown = {
        name: protocol.jobs(("online", name))[0].settings.training.model_dump()["temperature"]
        for name in ("CF", "CF, top K", "PRM", "ListCVAE", "GFN4Rec", *FAIR.values())
    }
    own = {"CF": 0.3, "CF, top K": 0.0, "PRM": 0.5, "ListCVAE": 1.0, "GFN4Rec": 1.0}
    assert shown == own | dict.fromkeys(FAIR.values(), 1.0) | {FAIR["CF"]: 0.1}
    untuned = [Protocol(BUDGETS["quick"]).jobs(("online", name))[0].settings.training for name in ("CF", "PRM")]
    assert [each.model_dump()["temperature"] for each in untuned] == [0.1, 1.0]
    assert protocol.jobs(("online", "CF"))[0].temperatures == (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.07, 0.05)
    assert protocol.jobs(("online", "PRM"))[0].temperatures == (1.0, 0.7, 0.5, 0.35, 0.25)


def test_sweeps_and_studies_have_seeds_of_their_own() -> None:
    protocol = Protocol(BUDGETS["paper"])
    numbers = {name: len(protocol.jobs(("online", name))) for name in ("CF", "b_r = 0.1", "beta 30", FAIR["CF"])}
    assert numbers == {"CF": 5, "b_r = 0.1": 3, "beta 30": 3, FAIR["CF"]: 3}


@pytest.mark.parametrize(
    ("num_seeds", "num_sensitivity_seeds", "numbers"), [(4, None, (4, 4)), (None, 2, (5, 2)), (4, 2, (4, 2))]
)
def test_seeds_in_place_of_the_budgets(
    num_seeds: int | None, num_sensitivity_seeds: int | None, numbers: tuple[int, int]
) -> None:
    protocol = read_protocol("paper", num_seeds, num_sensitivity_seeds)
    assert tuple(len(protocol.jobs(("online", name))) for name in ("CF", "b_r = 0.1")) == numbers


def test_models_that_would_meet_different_users_are_not_compared() -> None:
    needs: list[Need] = [("online", "CF"), ("offline", "GFN4Rec")]
    tuned: ByMode = {"online": {"cf": {"learning_rate": 0.1}}, "offline": {"gfn": {"num_users": 16}}}
    protocol = Protocol(BUDGETS["quick"], tuned=tuned)
    protocol.check([])
    protocol.check(needs[:1])
    with pytest.raises(UserError, match="CF and GFN4Rec would meet different users .*num_users=128.*num_users=16"):
        protocol.check(needs)
    replace(protocol, changes={"num_users": 16}).check(needs)


def test_changes_go_to_the_models_that_have_them() -> None:
    protocol = read_protocol("quick", 1, changes=["b_f=0.25", "num_users=16", "encoder.dim=16"])
    assert protocol.jobs(("online", "GFN4Rec"))[0].settings.policy_settings.model_dump()["b_f"] == 0.25
    found = protocol.jobs(("offline", "CF"))[0].settings
    assert "b_f" not in found.policy_settings.model_dump()
    assert found.policy_settings.model_dump()["encoder"]["dim"] == 16
    assert found.users.num_users == 16
