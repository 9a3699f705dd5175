"""`gfn4rec train`: online, offline, resume, options."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.figures import print_figures
from gfn4rec.cli.output import INTERRUPTED, JsonOption, out, print_json, table, tell, working
from gfn4rec.errors import UserError

app = typer.Typer(help="Training of policies.", no_args_is_help=True)

DataOption = Annotated[Path, typer.Option("--data", metavar="DIR", help="A prepared data set.")]
OutOption = Annotated[Path, typer.Option("--out", metavar="RUN", help="Where the run goes.")]
PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Its name in `gfn4rec policy list`; by default that of the file.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings as TOML: `policy`, `seed`, and the tables `settings`, `training`, `users`.",
    ),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Of weights, users, slates and batches.")]


@app.command(
    "online",
    epilog="Example: gfn4rec train online --data data/ml-1m --simulator simulators/ml-1m --policy gfn --out runs/gfn",
)
def online_command(
    data: DataOption,
    simulator: Annotated[Path, typer.Option("--simulator", metavar="SIM", help="The users who answer.")],
    target: OutOption,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    changes: SetOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Learn from the answers of simulated users (Algorithm 1 of the paper)."""
    return _train("online", data, simulator, target, policy, config, changes, seed, device, threads, as_json)


@app.command(
    "offline",
    epilog="Example: gfn4rec train offline --data data/ml-1m --policy gfn --set objective=db --out runs/gfn-offline",
)
def offline_command(
    data: DataOption,
    target: OutOption,
    simulator: Annotated[
        Path | None, typer.Option("--simulator", metavar="SIM", help="Users for the final evaluation.")
    ] = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    changes: SetOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Learn from the logged training slates."""
    return _train("offline", data, simulator, target, policy, config, changes, seed, device, threads, as_json)


@app.command("resume", epilog="Example: gfn4rec train resume runs/gfn")
def resume_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="An interrupted run.")],
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it has moved.")] = None,
    simulator: Annotated[
        Path | None, typer.Option("--simulator", metavar="SIM", help="The simulator, if it has moved.")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Go on with an interrupted run; the result is that of an uninterrupted one."""
    from gfn4rec import api
    from gfn4rec.training.run import Run

    chosen = choose_device(device, threads)
    run = Run.open(directory)

    with working(f"opening {directory}") as work:
        num_steps = run.manifest.settings.training["num_steps"]
        try:
            results = api.resume(directory, chosen, _reporter(work, num_steps), tell, data, simulator)
        except KeyboardInterrupt:  # not at a step: while it was opened or measured
            results = None
    return _print_end(directory, results, as_json)


@app.command("options", epilog="Example: gfn4rec train options online")
def options_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="online or offline")],
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="Some have defaults of their own.")] = "gfn",
    as_json: JsonOption = False,
) -> None:
    """The settings of a loop: key, default for a policy, meaning."""
    from gfn4rec.config import describe_settings, nearest
    from gfn4rec.training.config import KINDS, resolve_settings, table_configs

    kinds = {str(each): each for each in KINDS}
    if kind not in kinds:
        raise UserError(f"no loop {kind!r}; {nearest(kind, list(kinds))}")
    settings = resolve_settings(kinds[kind], policy)
    training = table_configs(kinds[kind], policy)["training"].parse(settings.training, "training")
    tables = {"training": describe_settings(training), "users": describe_settings(settings.users)}
    if as_json:
        print_json({name: {each.key: each.default for each in described} for name, described in tables.items()})
        return
    for name, described in tables.items():
        out().print(f"[{name}]", style="bold")
        shown = table("", "", "")
        for each in described:
            shown.add_row(f"  {each.key}", str(each.default), each.meaning)
        out().print(shown)


def _train(
    kind: Any,
    data: Path,
    simulator: Path | None,
    target: Path,
    policy: str | None,
    config: Path | None,
    changes: list[str] | None,
    seed: int | None,
    device: str,
    threads: int | None,
    as_json: bool,
) -> int:
    from gfn4rec import api
    from gfn4rec.storage import MANIFEST
    from gfn4rec.training.config import resolve_settings

    settings = resolve_settings(kind, policy, config, changes or (), seed)
    chosen = choose_device(device, threads)
    with working(f"opening {data}") as work:
        report = _reporter(work, settings.training["num_steps"])
        try:
            results = api.train(settings, data, simulator, target, chosen, report)
        except KeyboardInterrupt:
            results = None
            if not (target / MANIFEST).exists():
                tell("stopped before the run began")
                return INTERRUPTED
    return _print_end(target, results, as_json)


def _reporter(work: Any, num_steps: int) -> Any:
    def report(step: int, metrics: dict[str, float]) -> None:
        parts = [f"{name} {metrics[name]:.3f}" for name in ("reward", "loss") if name in metrics]
        work.advance(f"step {step}, {', '.join(parts)}", step, num_steps)

    return report


def _print_end(directory: Path, results: dict[str, Any] | None, as_json: bool) -> int:
    from gfn4rec.training.run import Run

    if results is None:
        if Run.open(directory).results is None:  # else another process of the group tells the results
            typer.echo(f"gfn4rec: stopped; go on with: gfn4rec train resume {directory}", err=True)
            return INTERRUPTED
        return 0
    if as_json:
        print_json({"out": str(directory), **results})
        return 0
    names = [name for name in ("greedy", "sampled", "last_steps", "test") if name in results]
    print_figures({name.replace("_", " "): results[name] for name in names})
    out().print(f"\n{results['step']:,} steps in {results['seconds']:.0f} s; written to {directory}")
    return 0
