"""The library in short: train, resume, evaluate. The command line calls the same functions."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gfn4rec.data.identity import content_of
from gfn4rec.errors import UserError
from gfn4rec.evaluation.frontier import FrontierPoint, measure_frontier
from gfn4rec.evaluation.protocol import Showing, evaluate_in_simulator, evaluate_on_log
from gfn4rec.evaluation.ruler import share_of_ruler
from gfn4rec.evaluation.scores import evaluate_scores as measure_scores
from gfn4rec.serving.recommender import Query as Query
from gfn4rec.serving.recommender import Recommender as Recommender
from gfn4rec.serving.recommender import load_run_policy
from gfn4rec.training.config import RunSettings
from gfn4rec.training.config import resolve_settings as resolve_settings
from gfn4rec.training.group import Group, process_group
from gfn4rec.training.offline import train_offline
from gfn4rec.training.online import train_online
from gfn4rec.training.parts import (
    changed_data,
    data_of,
    new_manifest,
    new_policy,
    open_data,
    open_users,
    start_rows,
    users_of,
)
from gfn4rec.training.run import Run

Report = Callable[[int, dict[str, Any]], None]
Tell = Callable[[str], None]
Rulers = dict[str, list[FrontierPoint]]


def train(
    settings: RunSettings,
    data: Path | str,
    simulator: Path | str | None,
    out: Path | str,
    device: torch.device | str = "cpu",
    report: Report = lambda *_: None,
) -> dict[str, Any] | None:
    """Train a policy online against simulated users, or offline on logged slates; the final figures.

    `resolve_settings("online", "gfn", changes={"b_f": 0.5})` makes settings.

    None if it was asked to end before, or if this is not the first of several processes.
    """
    simulator = None if simulator is None else Path(simulator)
    with process_group(device) as group:
        opened = open_data(Path(data), settings, device, simulator)
        users = None if simulator is None else open_users(simulator, opened, settings)
        manifest = new_manifest(settings, opened, Path(data), simulator, group.size)
        run = Run.create(Path(out), manifest) if group.is_first else None
        group.barrier()
        run = run or Run.open(Path(out))
        try:
            return _train(run, opened, users, settings, group, report)
        except UserError:
            if group.is_first and not run.has_checkpoints():  # a mistake leaves nothing behind
                shutil.rmtree(run.directory, ignore_errors=True)
            raise


def resume(
    directory: Path | str,
    device: torch.device | str = "cpu",
    report: Report = lambda *_: None,
    tell: Tell = lambda _: None,
    data: Path | str | None = None,
    simulator: Path | str | None = None,
) -> dict[str, Any] | None:
    """Go on with an interrupted run, as if it had not been interrupted; `tell` hears of damaged checkpoints.

    Its data set and its simulator may have moved: then say where they are.
    """
    run = Run.open(Path(directory))
    if run.results is not None:
        raise UserError(f"{directory}: is finished; there is nothing to resume")
    with process_group(device) as group:
        if group.size != run.manifest.num_processes:
            raise UserError(f"{directory}: was begun by {run.manifest.num_processes} processes, not {group.size}")
        opened = data_of(run, device, data, simulator)
        if changed := changed_data(run, opened):
            raise UserError(f"{changed}; name the one it began with by --data, or train anew")
        users = None
        if run.manifest.simulator_path is not None:
            users = users_of(run, opened, simulator, may_differ=False)
        checkpoint = run.load_checkpoint(only="")
        for note in checkpoint.notes if checkpoint and group.is_first else ():
            tell(note)
        return _train(run, opened, users, run.manifest.settings, group, report)


def _train(
    run: Run, data: Any, users: Any, settings: RunSettings, group: Group, report: Report
) -> dict[str, Any] | None:
    policy = new_policy(data, settings)
    if settings.kind == "offline":
        return train_offline(run, policy, data, users, group, report)
    if users is None:
        raise UserError("online training needs simulated users; name them with --simulator")
    return train_online(run, policy, users, group, report)


@dataclass(frozen=True)
class Evaluation:
    """Figures by how slates were chosen (`greedy`, `T=1`, ...), the ruler's points, and the test slates'."""

    rows: dict[str, dict[str, float]]
    ruler: list[FrontierPoint]
    test: dict[str, float] | None

    def with_ruler(self) -> dict[str, dict[str, float | None]]:
        """The rows with the reward as a share of the ruler's at the same coverage."""
        return {
            name: {**row, "ruler_share": share_of_ruler(self.ruler, row["coverage"], row["expected_reward"])}
            for name, row in self.rows.items()
        }


def evaluate(
    directory: Path | str,
    simulator: Path | str | None = None,
    data: Path | str | None = None,
    temperatures: Sequence[float] = (1.0,),
    num_batches: int = 100,
    ruler_batches: int = 20,
    seed: int = 0,
    device: torch.device | str = "cpu",
    report: Callable[[str, int, int], None] = lambda *_: None,
    tell: Tell = lambda _: None,
    rulers: Rulers | None = None,
) -> Evaluation:
    """Measure the policy of a run, greedy and at each temperature, beside the ruler.

    `tell` hears of damaged checkpoints, and of a log that is no longer the run's. `rulers` are those measured before,
    by whom they are for, and gets new ones.
    """
    run = Run.open(Path(directory))
    opened = data_of(run, device, data, simulator)
    if changed := changed_data(run, opened):
        tell(changed)
    users, policy = users_of(run, opened, simulator), load_run_policy(run, opened, tell)
    kind = run.manifest.settings.kind
    environment = users.environment(seed, start_rows=start_rows(kind, opened))
    ruler: list[FrontierPoint] = []
    if ruler_batches:
        rulers = {} if rulers is None else rulers
        path = Path(simulator or str(run.manifest.simulator_path)).resolve()
        whose = f"{kind} {path} {users.config.model_dump_json()} {content_of(opened.manifest)} {seed}"
        if whose not in rulers:
            rulers[whose] = measure_frontier(environment, num_batches=ruler_batches, seed=seed, report=report)
        ruler = rulers[whose]
    ways = {"greedy": Showing(greedy=True)} | {f"T={each:g}": Showing(temperature=each) for each in temperatures}
    rows: dict[str, dict[str, float]] = {}
    for name, showing in ways.items():

        def advance(done: int, total: int, name: str = name) -> None:
            report(name, done, total)

        rows[name] = evaluate_in_simulator(policy, environment, showing, num_batches, seed, advance)
    num_test = len(opened.split("test"))
    test = evaluate_on_log(policy, opened, batch_size=min(128, num_test)) if num_test else None
    return Evaluation(rows, ruler, test)


def evaluate_scores(
    directory: Path | str,
    simulator: Path | str | None = None,
    data: Path | str | None = None,
    num_batches: int = 5,
    seed: int = 0,
    device: torch.device | str = "cpu",
    tell: Tell = lambda _: None,
    report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, dict[str, float | None]]:
    """How a run's own estimates of expected rewards agree with the simulator's, by kind of slates."""
    run = Run.open(Path(directory))
    opened = data_of(run, device, data, simulator)
    policy = load_run_policy(run, opened, tell)
    starts = start_rows(run.manifest.settings.kind, opened)
    environment = users_of(run, opened, simulator).environment(seed, start_rows=starts)
    return measure_scores(policy, environment, opened, num_batches, seed, report)
