"""`gfn4rec train`: online, offline, resume, options."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device, threads_to_keep
from gfn4rec.cli.metrics import print_held_out, print_metrics
from gfn4rec.cli.output import INTERRUPTED, JsonOption, out, print_json, tell, working
from gfn4rec.cli.policy import print_settings
from gfn4rec.errors import UserError
from gfn4rec.progress import Reporter

if TYPE_CHECKING:
    from gfn4rec.training.config import Mode, RunSettings
    from gfn4rec.training.run import RunResults

app = typer.Typer(help="Train a policy, online or offline, or resume a run.", no_args_is_help=True)

DataOption = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="A prepared data set (see `gfn4rec data prepare`).")
]
OutOption = Annotated[Path, typer.Option("--out", metavar="RUN", help="Directory to write the run to.")]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy", help="Name of a policy (see `gfn4rec policy list`); default: the one in --config, or gfn-prior."
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with `policy`, `seed` and the tables `settings` (of the policy), `training`, `users`.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting from `gfn4rec policy show` or `gfn4rec train options`; repeatable.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", help="Seed of all random numbers; default: the one in --config, or 0.")
]


@app.command(
    "online",
    epilog="Example: gfn4rec train online --data data/ml-1m --simulator simulators/ml-1m --policy gfn --out runs/gfn",
)
def online_command(
    data: DataOption,
    simulator: Annotated[
        Path, typer.Option("--simulator", metavar="SIM", help="A trained simulator; its users respond to the slates.")
    ],
    target: OutOption,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    changes: SetOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="A finished run of the same policy, whose weights to begin with."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Train a policy on the responses of simulated users to its slates (Algorithm 1 of the paper).

    A policy with a prior learns from the log first, unless it begins with the weights of another run.
    """
    return _train("online", data, simulator, target, policy, config, changes, seed, device, threads, as_json, start)


@app.command(
    "offline",
    epilog="Example: gfn4rec train offline --data data/ml-1m --policy gfn --set objective=db --out runs/gfn-offline",
)
def offline_command(
    data: DataOption,
    target: OutOption,
    simulator: Annotated[
        Path | None,
        typer.Option("--simulator", metavar="SIM", help="A trained simulator, to evaluate the trained policy in."),
    ] = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    changes: SetOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Train a policy on the slates of the log, without interaction."""
    return _train("offline", data, simulator, target, policy, config, changes, seed, device, threads, as_json)


@app.command("resume", epilog="Example: gfn4rec train resume runs/gfn")
def resume_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of an interrupted run.")],
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it was moved.")] = None,
    simulator: Annotated[
        Path | None, typer.Option("--simulator", metavar="SIM", help="The simulator, if it was moved.")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Resume an interrupted run; its results are the same as without the interruption."""
    from gfn4rec import api
    from gfn4rec.training.run import Run

    run = Run.open(directory)
    chosen = choose_device(device, threads or run.manifest.num_threads)

    with working(f"opening {directory}") as work:
        num_steps = run.manifest.settings.training.num_steps
        try:
            report, report_log = work.training(num_steps), _log_report(work, run.settings)
            results = api.resume(
                directory, chosen, report, tell, data, simulator, report_log=report_log, threads=threads
            )
        except KeyboardInterrupt:  # outside a step: while the run was opened or evaluated
            results = None
    return _print_end(directory, results, as_json)


@app.command("options", epilog="Example: gfn4rec train options online")
def options_command(
    mode: Annotated[str, typer.Argument(metavar="MODE", help="The loop: online or offline.")],
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="The policy whose defaults are shown.")] = "gfn-prior",
    as_json: JsonOption = False,
) -> None:
    """List the settings of a training loop, with a policy's defaults."""
    from gfn4rec.config import describe_settings, nearest
    from gfn4rec.training.config import MODES, resolve_settings

    modes = {str(name): name for name in MODES}
    if mode not in modes:
        raise UserError(f"no mode {mode!r}; {nearest(mode, list(modes))}")
    run_settings = resolve_settings(modes[mode], policy)
    tables = {
        "training": describe_settings(run_settings.training),
        "users": describe_settings(run_settings.users),
    }
    if as_json:
        print_json({name: {setting.key: setting.default for setting in settings} for name, settings in tables.items()})
        return
    for name, settings in tables.items():
        out().print(f"[{name}]", style="bold")
        print_settings(settings)


def _train(
    mode: "Mode",
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
    start: Path | None = None,
) -> int:
    from gfn4rec import api
    from gfn4rec.storage import MANIFEST
    from gfn4rec.training.config import resolve_settings

    settings = resolve_settings(mode, policy, config, changes or (), seed)
    chosen = choose_device(device, threads_to_keep(threads))
    with working(f"opening {data}") as work:
        report, report_log = work.training(settings.training.num_steps), _log_report(work, settings)
        try:
            results = api.train(settings, data, simulator, target, chosen, report, start=start, report_log=report_log)
        except KeyboardInterrupt:
            results = None
            if not (target / MANIFEST).exists():
                tell("stopped before the run began")
                return INTERRUPTED
    return _print_end(target, results, as_json)


def _log_report(work: Reporter, settings: "RunSettings") -> Callable[[int, Mapping[str, object]], None]:
    """Return what reports the steps on the log before online training."""
    return work.training(getattr(settings.training, "log_steps", 0), "learning from the log")


def _print_end(directory: Path, results: "RunResults | None", as_json: bool) -> int:
    from gfn4rec.evaluation.verdict import judge_rows
    from gfn4rec.training.run import Run

    if results is None:
        if Run.open(directory).results is None:  # else another process of the group prints the results
            typer.echo(f"gfn4rec: stopped; resume with: gfn4rec train resume {directory}", err=True)
            return INTERRUPTED
        return 0
    verdicts = {} if results.held_out is None else judge_rows(results.held_out)
    if as_json:
        judged = {"verdict": {name: verdict.as_dict() for name, verdict in verdicts.items()}} if verdicts else {}
        print_json({"out": str(directory), **results.as_dict(), **judged})
        return 0
    rows = {name: getattr(results, name) for name in ("greedy", "sampled", "last_steps", "test")}
    print_metrics({name.replace("_", " "): row for name, row in rows.items() if row is not None})
    if results.held_out is not None:
        out().print()
        print_held_out(results.held_out, results.held_out.rows)
        for verdict in verdicts.values():
            out().print(f"\n{verdict.summary}")
    out().print(f"\n{results.step:,} steps in {results.seconds:.0f} s; written to {directory}")
    return 0
