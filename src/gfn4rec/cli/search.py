"""`gfn4rec search`: the best settings of policies."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gfn4rec.cli.compute import DeviceOption, choose_device
from gfn4rec.cli.output import INTERRUPTED, JsonOption, Pace, out, print_json, table, tell, time_left, working
from gfn4rec.cli.train import SetOption
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.cli.output import Work
    from gfn4rec.experiments.search import Best, Progress


SummariesOption = Annotated[
    Path | None, typer.Option("--summaries", metavar="DIR", help="Outcomes made elsewhere; new ones are added.")
]


def search_command(
    policies: Annotated[list[str], typer.Argument(metavar="POLICY...", help="Names in `gfn4rec policy list`.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="A prepared data set.")],
    simulator: Annotated[Path, typer.Option("--simulator", metavar="SIM", help="The users who answer.")],
    target: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs, trials and tuned.toml go.")],
    kind: Annotated[str, typer.Option(help="How each trial learns: online or offline.")] = "online",
    strategy: Annotated[
        str,
        typer.Option(help="line: one setting after the other; grid: all combinations; tpe: Optuna's, with pruning."),
    ] = "line",
    trials: Annotated[int, typer.Option(min=1, help="Trials of each policy, at most.")] = 30,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each trial.")] = 1000,
    batches: Annotated[int, typer.Option(min=1, help="Batches that a trial is measured with.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the trials; not one of the runs to be compared later.")] = 1000,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="A database for the trials; by default a file in OUT.")
    ] = None,
    summaries: SummariesOption = None,
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Trials at a time; by default one per core.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; by default one of this machine.")] = None,
    changes: SetOption = None,
    values: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V,V,...", help="Try these values of a setting; may be repeated."),
    ] = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> int:
    """Search the settings with which policies earn most, with the same number of trials for each.

    The best go to OUT/tuned.toml. Trials that were made before are found, not repeated; after an interruption the same
    command goes on.
    """
    from gfn4rec.experiments.extra import require_experiments

    require_experiments()
    from gfn4rec.experiments.campaign import Interrupted
    from gfn4rec.experiments.engines import open_engine
    from gfn4rec.experiments.lab import Lab
    from gfn4rec.experiments.search import SearchConfig, search_all
    from gfn4rec.experiments.tuned import TUNED
    from gfn4rec.experiments.world import World
    from gfn4rec.training.config import parse_change

    how: dict[str, Any] = {"strategy": strategy, "kind": kind, "num_trials": trials, "num_steps": steps}
    named = dict(parse_change(text) for text in changes or ())
    tried = dict(_parse_values(text) for text in values or ())
    chosen = {**how, "num_batches": batches, "seed": seed, "changes": named, "values": tried}
    config = SearchConfig.parse(chosen, "search")
    runner = open_engine(engine, workers, address)
    choose_device(device, None)
    with working(f"opening {data}") as work:
        try:
            lab = Lab(World(data, simulator), runner, device, summaries)
            found = search_all(policies, config, lab, target, storage, search_progress(work))
        except (Interrupted, KeyboardInterrupt):
            tell("stopped; the same command goes on where it was")
            return INTERRUPTED
    _print(found, target / TUNED, as_json)
    return 0


def search_progress(work: "Work") -> "Progress":
    """A moving line on a terminal, and a line per finished trial anywhere."""
    told, pace = set[str](), Pace()

    def report(title: str, done: int, total: int) -> None:
        line = title + time_left(pace.seconds_left(done, total))
        work.advance(line, done, total)
        if done and title not in told:
            tell(line)
        told.add(title)

    return report


def _parse_values(text: str) -> tuple[str, tuple[float, ...]]:
    """From `key=number,number`."""
    key, _, numbers = text.partition("=")
    try:
        return key.strip(), tuple(float(number) for number in numbers.split(","))
    except ValueError:
        raise UserError(f"--values {text}: write KEY=NUMBER,NUMBER,...") from None


def _print(found: "list[Best]", tuned: Path, as_json: bool) -> None:
    if as_json:
        print_json({"tuned": str(tuned), "policies": {each.policy: asdict(each) for each in found}})
        return
    for best in found:
        names = list(best.changes)
        out().print(f"{best.policy}, {len(best.trials)} trials", style="bold")
        shown = table("reward", *names, "state")
        for trial in best.trials:
            value = "-" if trial.value is None else f"{trial.value:.4f}"
            state = trial.state if trial.failure is None else f"{trial.state}: {trial.failure}"
            shown.add_row(value, *(f"{trial.point[name]:.4g}" for name in names), state)
        out().print(shown)
        out().print()
    out().print(f"The best settings are in {tuned}")
