"""What lies in docs/results can be read by the code as it is."""

import json
from pathlib import Path

import pytest
from pydantic import Field, create_model

from gfn4rec.cli import main
from gfn4rec.config import ADDED_LATER
from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.jobs.result import JobResult, OracleResult
from gfn4rec.experiments.jobs.store import ResultStore, summary_file
from gfn4rec.experiments.jobs.tasks import JobTask, OracleTask
from gfn4rec.experiments.paper.models import POLICY_OF
from gfn4rec.experiments.paper.protocol import read_protocol
from gfn4rec.experiments.paper.reproductions import needs_of
from gfn4rec.experiments.search.tuned import read_tuned
from gfn4rec.policies import POLICIES
from gfn4rec.simulator.checkpoint import read_simulator_manifest
from gfn4rec.training import config
from gfn4rec.training.config import resolve_settings

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RUNS = RESULTS / "runs"
IDENTITIES = {  # of benchmarks and their rho, so that keys can be checked where their data are absent
    "kuairand-pure": ("4fdf73cf65bd7b17", 0.1),
    "ml-1m": ("361517776fd87aa7", 0.2),
    "ml-1m-reference": ("09565c4e337625b0", 0.2),
    "synthetic-kr1k": ("a5cfb7932ad9c371", 0.2),
    "synthetic-small": ("08e4dd28db32828c", 0.2),
}
NUM_RESULTS = {"kuairand-pure": 119, "ml-1m": 30, "ml-1m-reference": 195, "synthetic-kr1k": 33, "synthetic-small": 9}


class KnownBenchmark(Benchmark):
    """A benchmark whose data need not be there."""

    def __init__(self, name: str) -> None:
        super().__init__(Path(name), Path(name))
        self.__dict__["identity"], self.__dict__["rho"] = IDENTITIES[name]

    @property
    def rho(self) -> float:
        return float(self.__dict__["rho"])


def lines_of(name: str) -> list[str]:
    return (RUNS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()


def check_keys(name: str) -> None:
    """Every result of a benchmark has the key of its job."""
    benchmark = KnownBenchmark(name)
    results = [JobResult.model_validate_json(line) for line in lines_of(name)]
    assert [result.key for result in results] == [result.job.key(benchmark) for result in results]
    assert len({result.key for result in results}) == NUM_RESULTS[name]


@pytest.mark.parametrize("name", IDENTITIES)
def test_every_result_has_the_key_of_its_job(name: str) -> None:
    check_keys(name)


def test_oracles_are_those_of_the_results() -> None:
    known = {}
    for name in IDENTITIES:
        for line in lines_of(name):
            task = OracleTask(JobResult.model_validate_json(line).job, KnownBenchmark(name))
            known[task.key()] = name
    oracles = [OracleResult.model_validate_json(line) for line in lines_of("oracles")]
    names = [known[oracle.key] for oracle in oracles]
    assert names == ["kuairand-pure", "ml-1m-reference", "ml-1m", "synthetic-kr1k"]


@pytest.mark.parametrize("name", [*IDENTITIES, "oracles"])
def test_files_are_as_the_store_writes_them(tmp_path: Path, name: str) -> None:
    """Adding a result adds a line, and changes no other."""
    entries = [json.loads(line) for line in lines_of(name)]
    summary_file(tmp_path / f"{name}.jsonl").put(*reversed(entries))
    assert (tmp_path / f"{name}.jsonl").read_bytes() == (RUNS / f"{name}.jsonl").read_bytes()


def test_a_setting_that_is_added_later_loses_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its default computes what was computed without it; another value is another training."""
    new = Field(default=7, json_schema_extra=ADDED_LATER)
    for policy in POLICIES.values():
        monkeypatch.setattr(policy, "Config", create_model("Config", __base__=policy.Config, new_in_policy=(int, new)))
    for loop in (config.OnlineConfig, config.OfflineConfig):
        fresh = create_model(loop.__name__, __base__=loop, new_in_loop=(int, new))
        monkeypatch.setattr(config, loop.__name__, fresh)
    for name in IDENTITIES:
        check_keys(name)
    benchmark, settings = KnownBenchmark("ml-1m"), resolve_settings("online", "gfn")
    assert settings.training.model_dump()["new_in_loop"] == settings.policy_settings.model_dump()["new_in_policy"] == 7
    key = Job(settings=settings).training_key(benchmark)
    for change in ("new_in_policy", "new_in_loop"):
        assert Job(settings=resolve_settings("online", "gfn", changes={change: 7})).training_key(benchmark) == key
        assert Job(settings=resolve_settings("online", "gfn", changes={change: 8})).training_key(benchmark) != key


@pytest.mark.parametrize("path", sorted((RESULTS / "simulators").iterdir()), ids=lambda path: path.name)
def test_every_simulator_is_whole(path: Path) -> None:
    manifest = read_simulator_manifest(path)
    assert manifest.is_finished
    assert manifest.data.name == path.name


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/tuned.toml")), ids=lambda path: path.parent.name)
def test_tuned_settings_are_settings(path: Path) -> None:
    assert read_tuned(path, POLICY_OF)


def test_no_run_of_committed_tables_would_be_made_again(tmp_path: Path) -> None:
    """A setting that is new, or has another default, changes all keys: then `CODE_VERSION` might as well be raised."""
    assert main(["data", "prepare", "synthetic-small", "--out", str(tmp_path / "data")]) == 0
    benchmark, protocol = (
        Benchmark(tmp_path / "data", RESULTS / "simulators" / "synthetic-small"),
        read_protocol("paper"),
    )
    assert (benchmark.identity, benchmark.rho) == IDENTITIES["synthetic-small"]
    store = ResultStore(tmp_path / "runs", RUNS)
    jobs = [job for need in needs_of(["objectives"]) for job in protocol.jobs(need)]
    results = [store.find(JobTask(job, benchmark, tmp_path / "runs")) for job in jobs]
    assert len({result.key for result in results if result is not None}) == 9
    assert None not in results
