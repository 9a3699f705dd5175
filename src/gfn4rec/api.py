"""The library in short: train, resume, evaluate, recommend. The command line calls the same functions."""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.data.identity import content_of
from gfn4rec.decoders.base import Decoder
from gfn4rec.errors import UserError
from gfn4rec.evaluation.frontier import FrontierPoint, measure_frontier
from gfn4rec.evaluation.held_out_protocol import (
    MOST_SLATES,
    HeldOut,
    HeldOutResults,
    HeldOutRow,
    measure_held_out,
    measure_references,
)
from gfn4rec.evaluation.list_frontier import measure_list_frontier
from gfn4rec.evaluation.oracle import oracle_share
from gfn4rec.evaluation.protocol import evaluate_on_log, measure_ways
from gfn4rec.evaluation.scores import evaluate_scores as measure_scores
from gfn4rec.evaluation.verdict import Verdict, judge_rows
from gfn4rec.evaluation.ways import Way, ways_of
from gfn4rec.policies import policy_class
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.progress import reporter
from gfn4rec.serving.recommender import Query as Query
from gfn4rec.serving.recommender import Recommender as Recommender
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.simulator.effects import NO_EFFECTS, ListEffects
from gfn4rec.simulator.environment import UserEnvironment
from gfn4rec.simulator.protocol import UserModel
from gfn4rec.training.config import OnlineConfig, RunSettings, log_settings
from gfn4rec.training.config import resolve_settings as resolve_settings
from gfn4rec.training.group import Group, process_group
from gfn4rec.training.offline import train_offline
from gfn4rec.training.online import Report, train_online
from gfn4rec.training.opened_run import DataSource, Notify, OpenedRun, UsersSource
from gfn4rec.training.process import computing_with
from gfn4rec.training.recording import MetricsLine
from gfn4rec.training.response_loop import ResponseTrainingConfig
from gfn4rec.training.response_training import train_response_model
from gfn4rec.training.run import LOG, Run, RunResults

Oracles: TypeAlias = dict[str, list[FrontierPoint]]
"""The oracle's points by what they depend on: users, data set, seed."""
References: TypeAlias = dict[str, dict[str, HeldOutRow]]
"""Held-out metrics of references by what they depend on: data set, threshold of liked items, number of slates."""
EvaluationReport: TypeAlias = Callable[[str, int, int], None]


def train(
    settings: RunSettings,
    data: DataSource,
    simulator: UsersSource | None,
    out: Path | str,
    device: torch.device | str = "cpu",
    report: Report = lambda *_: None,
    policy: Policy | None = None,
    progress: bool = False,
    start: Path | str | None = None,
    report_log: Report = lambda *_: None,
) -> RunResults | None:
    """Train a policy online with simulated users, or offline on logged slates; return the final metrics.

    Data set and simulator are directories, or objects in memory. `policy` replaces the new policy that the settings
    describe; it must be one of theirs. `progress` prints how far the training is. To resume a run, give `resume` the
    same simulator object; weights of a policy in memory are kept from the first checkpoint on.

    `start` is a finished run whose weights the new one begins with. Without it, a policy with a prior learns from the
    log before it goes online (`log_steps`); `report_log` gets those steps.

    Return None if it was asked to stop before, or if this is not the first of several processes.

    >>> from gfn4rec import resolve_settings
    >>> settings = resolve_settings("online", "cf", changes={"num_steps": 8, "warmup_steps": 2, "final_batches": 2})
    >>> results = train(settings, "data/tiny", "simulators/tiny", out="runs/cf")
    >>> results.step, sorted(results.greedy)[:2]
    (8, ['coverage', 'expected_reward'])
    """
    with process_group(device) as group:
        opened = OpenedRun.begin(settings, data, simulator, Path(out), device, group.size, group.is_first, start)
        group.barrier()
        try:
            return _train(opened, group, _Reports(report, report_log, progress), policy)
        except UserError:
            # A mistake leaves nothing behind but what was learned from the log, which another run can start from.
            if group.is_first and not opened.run.has_checkpoints() and not (opened.run.directory / LOG).exists():
                shutil.rmtree(opened.run.directory, ignore_errors=True)
            raise


def resume(
    directory: Path | str,
    device: torch.device | str = "cpu",
    report: Report = lambda *_: None,
    notify: Notify = lambda _: None,
    data: DataSource | None = None,
    simulator: UsersSource | None = None,
    progress: bool = False,
    report_log: Report = lambda *_: None,
    threads: int | None = None,
) -> RunResults | None:
    """Resume an interrupted run; the result is that of an uninterrupted one.

    It computes with the number of threads that it was begun with, because the rounding of sums depends on it, or with
    `threads`. `data` and `simulator` say where they are now, if they have moved. `notify` receives notes on damaged
    checkpoints, and on another number of threads.

    >>> resume("runs/tiny")
    Traceback (most recent call last):
    gfn4rec.errors.UserError: runs/tiny: is finished; there is nothing to resume
    """
    run = Run.open(Path(directory))
    if run.results is not None:
        raise UserError(f"{directory}: is finished; there is nothing to resume")
    begun_with = run.manifest.num_threads
    if threads is not None and begun_with not in (None, threads):
        notify(f"{directory}: was begun with {begun_with} threads; with {threads}, its numbers differ by rounding")
    with computing_with(threads or begun_with), process_group(device) as group:
        if group.size != run.manifest.num_processes:
            raise UserError(f"{directory}: was begun by {run.manifest.num_processes} processes, not {group.size}")
        opened = OpenedRun.open(directory, data, simulator, device, must_match=True)
        checkpoint = run.load_checkpoint(only="")
        for note in checkpoint.notes if checkpoint and group.is_first else ():
            notify(note)
        return _train(opened, group, _Reports(report, report_log, progress))


@dataclass(frozen=True)
class _Reports:
    """Who hears of the steps of a training, and of those on the log before it."""

    steps: Report
    log_steps: Report
    is_printed: bool


def _train(opened: OpenedRun, group: Group, reports: _Reports, policy: Policy | None = None) -> RunResults | None:
    settings, is_given = opened.settings, policy is not None
    if policy is None:
        policy = opened.starting_policy()
    else:
        _refuse_other_policy(policy, opened)
    if isinstance(settings.training, OnlineConfig):
        if not opened.has_users:
            raise UserError("online training needs simulated users; name them with --simulator")
        if settings.training.log_steps and not is_given and not opened.run.manifest.started_from:
            learned = _learn_from_log(opened, group, reports)
            if learned is None:
                return None
            policy.load_state_dict(learned)
    with _reporting(settings.training.num_steps, "training", reports.steps, reports.is_printed) as on_step:
        if settings.mode == "offline":
            users = opened.users if opened.has_users else None
            return train_offline(opened.run, policy, opened.data, users, group, on_step)
        return train_online(opened.run, policy, opened.users, group, on_step)


def _learn_from_log(opened: OpenedRun, group: Group, reports: _Reports) -> dict[str, Tensor] | None:
    """Return the weights learned from the log, by a run inside the run; None if asked to stop before its end."""
    if opened.run.has_checkpoints():  # which have these weights and more
        return opened.policy.state_dict()
    settings, directory, data = log_settings(opened.settings), opened.run.directory / LOG, opened.data
    if directory.exists():
        inner = OpenedRun.open(directory, data, must_match=True)
    else:
        inner = OpenedRun.begin(settings, data, None, directory, data.device, group.size, group.is_first)
    group.barrier()
    if inner.run.results is None:
        total, title = settings.training.num_steps, "learning from the log"
        with _reporting(total, title, reports.log_steps, reports.is_printed) as on_step:
            train_offline(inner.run, inner.new_policy(), data, None, group, on_step)
        if inner.run.results is None:
            return None
    return inner.policy.state_dict()


def _refuse_other_policy(policy: Policy, opened: OpenedRun) -> None:
    settings, one, other = opened.settings, policy.catalogue, Catalogue.of(opened.data)
    if type(policy) is not policy_class(settings.policy) or policy.config != settings.policy_settings:
        raise UserError(f"the policy in memory is not the {settings.policy} of the settings; make it from them")
    sizes = [(each.num_users, each.num_items, each.slate_size, each.weight_R.tolist()) for each in (one, other)]
    if sizes[0] != sizes[1]:
        raise UserError(f"the policy in memory was made for another data set than {opened.data.directory}")


@contextmanager
def _reporting(num_steps: int, title: str, report: Report, is_printed: bool) -> Iterator[Report]:
    if not is_printed:
        yield report
        return
    with reporter(title) as bar:
        on_step = bar.training(num_steps, title)

        def both(step: int, metrics: MetricsLine) -> None:
            on_step(step, metrics)
            report(step, metrics)

        yield both


def train_simulator(
    data: DataSource,
    out: Path | str,
    num_epochs: int | None = None,
    rho: float | None = None,
    config: ResponseTrainingConfig | None = None,
    device: torch.device | str = "cpu",
    progress: bool = False,
    effects: ListEffects = NO_EFFECTS,
) -> UserModel:
    """Train simulated users on a log, save them in `out`, and return them, ready for an environment.

    `rho` is the strength of item influence, by default the data set's; `effects` are other list effects. Users are
    cautious and respond less to items that they hardly ever choose; `ResponseTrainingConfig()` trains the paper's.

    >>> users = train_simulator("data/tiny", "simulators/another", num_epochs=1)
    >>> users.item_embedding_ND.shape  # a row for each item, and one for padding
    torch.Size([61, 96])
    """
    config = config or ResponseTrainingConfig().with_caution()
    if num_epochs is not None:
        given = config.model_dump(exclude_unset=True)
        config = ResponseTrainingConfig.parse({**given, "num_epochs": num_epochs}, "simulator")
    if rho is not None and not 0 <= rho < math.inf:
        raise UserError(f"rho {rho}: the strength of item influence is 0 or more")
    length = config.model.history_length
    opened = data.with_history(length) if isinstance(data, SlateData) else SlateData.open(data, length, device)
    with reporter("training simulated users") if progress else nullcontext() as bar:

        def report(epoch: int, step: int, num_steps: int, loss: float) -> None:
            if bar is not None:
                title = f"epoch {epoch + 1} of {config.num_epochs}"
                bar.advance(title, step, num_steps, f"loss {loss:.4f}")

        influence = opened.manifest.rho if rho is None else rho
        train_response_model(opened, config, Path(out), influence, report=report, effects=effects)
    return SimulatorFiles.open(Path(out)).load(opened)


@dataclass(frozen=True)
class Evaluation:
    """Metrics in the simulator by how slates were drawn (`greedy`, `T=1`, ...), and on the test slates of the log.

    >>> Evaluation({"greedy": {"reward": 1.5}}, [], None).rows["greedy"]["reward"]
    1.5
    """

    rows: dict[str, dict[str, float]]
    """Empty without a simulator, as is `oracle`."""
    oracle: list[FrontierPoint]
    test: dict[str, float] | None
    """Ranking metrics of logged slates; None without test slates."""
    held_out: HeldOutResults | None = None
    """What the policy shows before the test slates, beside references; None without test slates."""

    def with_oracle(self) -> dict[str, dict[str, float | None]]:
        """Return the rows with the reward as a share of the oracle's at the same coverage."""
        return {
            name: {**row, "oracle_share": oracle_share(self.oracle, row["coverage"], row["expected_reward"])}
            for name, row in self.rows.items()
        }

    def verdicts(self) -> dict[str, Verdict]:
        """Return a verdict on each held-out row of the policy; none without test slates."""
        return {} if self.held_out is None else judge_rows(self.held_out)


def evaluate(
    run: OpenedRun | Path | str,
    simulator: UsersSource | None = None,
    data: DataSource | None = None,
    temperatures: Sequence[float] = (1.0,),
    num_batches: int = 100,
    oracle_batches: int = 20,
    seed: int = 0,
    device: torch.device | str = "cpu",
    report: EvaluationReport = lambda *_: None,
    notify: Notify = lambda _: None,
    oracles: Oracles | None = None,
    reward_weights: Sequence[float] = (1.0,),
    liked: float | None = None,
    num_slates: int = MOST_SLATES,
    references: References | None = None,
    pessimism: float | None = None,
    list_oracle: bool = False,
    decoder: Decoder | None = None,
) -> Evaluation:
    """Evaluate the policy of a run on test slates and in the simulator, greedy and at each temperature.

    Without a simulator, only the test slates are evaluated, at most `num_slates` by held-out metrics. `liked` is the
    smallest reward of a liked item there, `pessimism` replaces that of the users, `list_oracle` measures that one, too,
    a decoder's slates have rows of their own. `oracles` and `references` hold those measured before.

    >>> evaluation = evaluate("runs/tiny", temperatures=(1.0, 0.5), num_batches=2, oracle_batches=1)
    >>> list(evaluation.rows), list(evaluation.held_out.references)
    (['greedy', 'T=1', 'T=0.5'], ['popularity', 'random'])
    """
    opened = run if isinstance(run, OpenedRun) else OpenedRun.open(run, data, simulator, device, notify=notify)
    ways = _ways(temperatures, reward_weights, decoder, opened)
    num_test, tests = len(opened.data.split("test")), HeldOut.of(opened.data, liked, num_slates)
    rows, oracle = dict[str, dict[str, float]](), list[FrontierPoint]()
    if opened.has_users or not num_test or pessimism is not None or list_oracle:  # without a simulator, it is missed
        users = _environment(opened, pessimism, seed)
        oracle = _measure_oracle(opened, users, oracle_batches, seed, report, oracles, list_oracle)
        rows = measure_ways(opened.policy, users, ways, num_batches, seed, report)
    test = evaluate_on_log(opened.policy, opened.data, batch_size=min(128, num_test)) if num_test else None
    return Evaluation(rows, oracle, test, _measure_held_out(opened, tests, reward_weights, references, report, decoder))


def _environment(opened: OpenedRun, pessimism: float | None, seed: int) -> UserEnvironment:
    users = opened.users if pessimism is None else opened.users.with_pessimism(pessimism)
    return users.evaluation_environment(opened.settings.mode, seed)


def _ways(
    temperatures: Sequence[float], reward_weights: Sequence[float], decoder: Decoder | None, opened: OpenedRun
) -> dict[str, Way]:
    """Return the ways of making slates; UserError for what has no meaning for this policy, before anything is done."""
    other = [weight for weight in reward_weights if weight != 1]
    if other and not policy_class(opened.settings.policy).has_prior:
        problem = f"policy {opened.settings.policy} has no prior, so a reward weight of {other[0]:g} has no meaning"
        raise UserError(f"{opened.run.directory}: {problem}; leave --reward-weight at 1")
    if decoder is not None:
        device = opened.data.device
        nobody = opened.data.latest(torch.zeros(1, dtype=torch.int64, device=device))
        decoder.recommend(opened.policy, nobody, torch.Generator(device))
    return ways_of(temperatures, reward_weights, decoder)


def _measure_oracle(
    opened: OpenedRun,
    environment: UserEnvironment,
    num_batches: int,
    seed: int,
    report: EvaluationReport,
    oracles: Oracles | None,
    list_oracle: bool,
) -> list[FrontierPoint]:
    """Return the oracle's points, measured unless they are known; none if they are not asked for."""
    if not num_batches:
        return []
    oracles = {} if oracles is None else oracles  # all of them with the same pessimism, with or without lists
    key = _oracle_key(opened, seed)
    if key not in oracles:
        oracles[key] = measure_frontier(environment, num_batches=num_batches, seed=seed, report=report)
        if list_oracle:
            oracles[key] += measure_list_frontier(environment, num_batches=num_batches, seed=seed, report=report)
    return oracles[key]


def _measure_held_out(
    opened: OpenedRun,
    tests: HeldOut | None,
    reward_weights: Sequence[float],
    references: References | None,
    report: EvaluationReport,
    decoder: Decoder | None,
) -> HeldOutResults | None:
    if tests is None:
        return None
    known, key = {} if references is None else references, f"{content_of(opened.data.manifest)} {tests.key}"
    if key not in known:
        known[key] = measure_references(tests, report)
    return measure_held_out(opened.policy, tests, known[key], reward_weights, report, decoder)


def _oracle_key(opened: OpenedRun, seed: int) -> str:
    content, users = content_of(opened.data.manifest), opened.users.config
    return f"{opened.settings.mode} {opened.simulator_name} {users.model_dump_json()} {content} {seed}"


def evaluate_scores(
    run: OpenedRun | Path | str,
    simulator: UsersSource | None = None,
    data: DataSource | None = None,
    num_batches: int = 5,
    seed: int = 0,
    device: torch.device | str = "cpu",
    notify: Notify = lambda _: None,
    report: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, dict[str, float | None]]:
    """Return how well a policy's own estimates of expected rewards agree with the simulator's, by kind of slates."""
    opened = run if isinstance(run, OpenedRun) else OpenedRun.open(run, data, simulator, device, notify=notify)
    environment = opened.users.evaluation_environment(opened.settings.mode, seed)
    return measure_scores(opened.policy, environment, opened.data, num_batches, seed, report)
