"""`gfn4rec live simulate` as a user types it, against a real service."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gfn4rec.api import train_simulator
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.simulator.response_model import ResponseModelConfig
from gfn4rec.training.response_loop import ResponseTrainingConfig
from tests.conftest import Cli
from tests.live.http.serving import make_run
from tests.live.page.site import Site

Fails = Callable[..., str]
NOWHERE = "http://127.0.0.1:9"
SMALL = ResponseModelConfig(dim=8, embedding_dim=8, num_heads=2, num_layers=1)


def make_simulator(data: Path, out: Path) -> Path:
    """Train users for a moment."""
    train_simulator(data, out, 1, config=ResponseTrainingConfig(model=SMALL, batch_windows=64))
    return out


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service, and in `run/../simulator` users of its data set."""
    run = make_run(tmp_path_factory.mktemp("traffic"), "gfn")
    make_simulator(run.parent / "data", run.parent / "simulator")
    opened = Site(run, run.parent / "live")
    yield opened
    opened.stop()


@pytest.fixture
def simulator(site: Site) -> Path:
    """Users of the service's data set."""
    return site.directory.parent / "simulator"


def test_both_sides_count_the_same(cli: Cli, site: Site, simulator: Path) -> None:
    before = site.status()
    command = ("live", "simulate", site.url, "--simulator", simulator, "--users", 20, "--rate", 1000, "--delay", 0)
    result = cli(*command, "--requests", 30, "--duplicate", 1, "--json")
    assert (result.code, result.err) == (0, "")
    values = json.loads(result.out)
    counts, after = values["summary"]["counts"], site.status()
    assert after["decisions"] - before["decisions"] == counts["slates"] == values["summary"]["whole"]["slates"] == 30
    assert after["events"]["stored"] - before["events"]["stored"] == counts["events"] == counts["stored"] > 0
    assert after["events"]["duplicate"] - before["events"]["duplicate"] == counts["duplicate"] == counts["events"]
    assert counts["lost on purpose"] == 0
    assert values["summary"]["versions"] == {"1": 30}
    assert values["retries"] == 0
    site.close_all()
    rewards = site.status()["by_version"][0]  # the service has the responses that users gave, and nothing else
    assert rewards["slates"] == 30
    assert rewards["mean"] == pytest.approx(values["summary"]["whole"]["reward"], abs=1e-5)


def test_lost_feedback_never_arrives(cli: Cli, site: Site, simulator: Path) -> None:
    before = site.status()["events"]
    command = ("live", "simulate", site.url, "--simulator", simulator, "--rate", 1000, "--requests", 10, "--lose", 1)
    result = cli(*command)
    assert result.code == 0
    assert site.status()["events"] == before
    lines = result.out.splitlines()
    assert lines[0].split() == [
        "Seconds",
        "Slates",
        "Reward",
        "95",
        "%",
        "interval",
        "Slates/s",
        "p50",
        "ms",
        "p99",
        "ms",
    ]
    assert [line.split()[0] for line in lines[2:5]] == ["whole", "first", "last"]
    assert "stored 0, duplicate 0, late 0, unknown decision 0, errors 0, retries 0" in result.out
    assert "answered by 1 versions, from 1 to 1" in result.out
    assert "the data set has only 73 users; all of them took part" in result.err.replace("\n", " ")


def test_seconds_bound_the_traffic(cli: Cli, site: Site, simulator: Path) -> None:
    result = cli("live", "simulate", site.url, "--simulator", simulator, "--rate", 50, "--seconds", 0.3, "--json")
    whole = json.loads(result.out)["summary"]["whole"]
    assert whole["end"] >= 0.3
    assert whole["slates"] <= 60  # 15 are expected; 60 would be eleven standard deviations more


def test_an_address_where_nothing_answers(fails: Fails, simulator: Path) -> None:
    assert f"{NOWHERE}: nothing answers there" in fails("live", "simulate", NOWHERE, "--simulator", simulator)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:8000", "127.0.0.1:8000", "http://"])
def test_an_address_that_is_none(fails: Fails, simulator: Path, url: str) -> None:
    assert url in fails("live", "simulate", url, "--simulator", simulator)


def test_users_of_other_data(fails: Fails, site: Site, tmp_path: Path) -> None:
    prepare(generate(PRESETS["tiny"], seed=2)[1], PrepareConfig(slate_size=3), tmp_path / "data", "other")
    other = make_simulator(tmp_path / "data", tmp_path / "simulator")
    problem = fails("live", "simulate", site.url, "--simulator", other)
    assert f"{other}: made for another data set (other), not for this synthetic-tiny" in problem
    problem = fails("live", "simulate", site.url, "--simulator", other, "--data", tmp_path / "data")
    assert f"{tmp_path / 'data'}: is not the data set of the service (synthetic-tiny)" in problem


def test_a_simulator_that_is_none(fails: Fails, site: Site, tmp_path: Path) -> None:
    assert "absent" in fails("live", "simulate", site.url, "--simulator", tmp_path / "absent")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--rate", 0), "rate"),
        (("--rate", "nan"), "rate"),
        (("--seconds", 0), "seconds"),
        (("--lose", 1.5), "lose"),
        (("--duplicate", -0.1), "duplicate"),
        (("--delay", -1), "delay"),
        (("--greediness", 2), "greediness"),
        (("--requests", 5, "--seconds", 5), "--requests and --seconds both end the traffic; give one of them"),
    ],
)
def test_wrong_flags(fails: Fails, simulator: Path, flags: tuple[object, ...], problem: str) -> None:
    assert problem in fails("live", "simulate", NOWHERE, "--simulator", simulator, *flags)
