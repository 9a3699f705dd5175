"""`gfn4rec search`: search the best settings of policies."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, choose_device
from gfn4rec.cli.output import INTERRUPTED, JsonOption, out, print_json, table, tell, working
from gfn4rec.cli.train import SetOption
from gfn4rec.errors import UserError
from gfn4rec.progress import Pace, Reporter, time_left

if TYPE_CHECKING:
    from gfn4rec.experiments.search.search import ReportSearch, SearchResult


SummariesOption = Annotated[
    Path | None,
    typer.Option(
        "--summaries",
        metavar="DIR",
        help="Shared results of runs: those found there are not computed again, new ones are added.",
    ),
]


def search_command(
    policies: Annotated[list[str], typer.Argument(metavar="POLICY...", help="Names from `gfn4rec policy list`.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="A prepared data set.")],
    simulator: Annotated[Path, typer.Option("--simulator", metavar="SIM", help="A simulator of its users.")],
    target: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for runs, trials and tuned.toml.")],
    mode: Annotated[
        str, typer.Option(help="How to train the trials: online (with the simulator) or offline (on the log).")
    ] = "online",
    strategy: Annotated[
        str,
        typer.Option(help="line (one setting after the other), grid (all combinations) or tpe (Optuna, with pruning)."),
    ] = "line",
    trials: Annotated[int, typer.Option(min=1, help="Trials per policy, at most.")] = 30,
    steps: Annotated[int, typer.Option(min=1, help="Training steps per trial.")] = 1000,
    batches: Annotated[int, typer.Option(min=1, help="Batches of users to evaluate each trial with.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of all trials; train final runs with other seeds.")] = 1000,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Database of the trials; by default OUT/trials.db.")
    ] = None,
    summaries: SummariesOption = None,
    engine: Annotated[str, typer.Option(help="Where to run: local (processes of this machine) or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Trials at the same time; by default one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster; by default one is started on this machine.")
    ] = None,
    changes: SetOption = None,
    values: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V,V,...", help="Search these values of a setting; repeatable."),
    ] = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> int:
    """Search for the settings with which policies earn the highest reward.

    A trial is a short training with one combination of settings, judged by the reward of its greedy slates. Every
    policy gets the same number of trials. The best settings are written to OUT/tuned.toml. After an interruption, the
    same command resumes the search.
    """
    from gfn4rec.experiments import require_experiments

    require_experiments()
    from gfn4rec.experiments.benchmark import Benchmark
    from gfn4rec.experiments.jobs.campaign import Interrupted, Lab
    from gfn4rec.experiments.jobs.engines import open_engine
    from gfn4rec.experiments.paper.models import POLICY_OF
    from gfn4rec.experiments.search.search import SearchConfig, search_all
    from gfn4rec.experiments.search.tuned import TUNED
    from gfn4rec.training.config import parse_change

    options: dict[str, object] = {
        "strategy": strategy,
        "mode": mode,
        "num_trials": trials,
        "num_steps": steps,
        "num_batches": batches,
        "seed": seed,
        "changes": dict(parse_change(text) for text in changes or ()),
        "values": dict(_parse_values(text) for text in values or ()),
    }
    config = SearchConfig.parse(options, "search")
    runner = open_engine(engine, workers, address)
    choose_device(device, None)
    with working(f"opening {data}") as work:
        try:
            lab = Lab(Benchmark(data, simulator), runner, device, summaries)
            results = search_all(policies, config, lab, target, storage, search_progress(work), POLICY_OF)
        except (Interrupted, KeyboardInterrupt):
            tell("stopped; the same command resumes the search")
            return INTERRUPTED
    _print(results, target / TUNED, as_json)
    return 0


def search_progress(work: Reporter) -> "ReportSearch":
    """Return a callback that reports the trials at work, and prints a line for each finished trial."""
    printed, pace = set[str](), Pace()

    def report(title: str, done: int, total: int) -> None:
        line = title + time_left(pace.seconds_left(done, total))
        if done and title not in printed:
            tell(line)
        else:
            work.show(line, done, total)
        printed.add(title)

    return report


def _parse_values(text: str) -> tuple[str, tuple[float, ...]]:
    """Parse `key=number,number`."""
    key, _, numbers = text.partition("=")
    try:
        return key.strip(), tuple(float(number) for number in numbers.split(","))
    except ValueError:
        raise UserError(f"--values {text}: write KEY=NUMBER,NUMBER,...") from None


def _print(results: "list[SearchResult]", tuned: Path, as_json: bool) -> None:
    if as_json:
        print_json({"tuned": str(tuned), "policies": {result.policy: asdict(result) for result in results}})
        return
    for result in results:
        names = list(result.changes)
        out().print(f"{result.policy}, {len(result.trials)} trials", style="bold")
        shown = table("reward", *names, "state")
        for trial in result.trials:
            value = "-" if trial.value is None else f"{trial.value:.4f}"
            state = trial.state if trial.failure is None else f"{trial.state}: {trial.failure}"
            shown.add_row(value, *(f"{trial.point[name]:.4g}" for name in names), state)
        out().print(shown)
        out().print()
    out().print(f"The best settings are in {tuned}")
