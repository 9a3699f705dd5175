"""`gfn4rec simulator`: train, import-reference, frontier."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.output import INTERRUPTED, JsonOption, check_plot, out, parse_numbers, print_json, table, tell, working
from gfn4rec.errors import UserError

app = typer.Typer(help="Simulated users: their responses, and what is attainable with them.", no_args_is_help=True)

DataOption = Annotated[Path, typer.Option("--data", metavar="DIR", help="The prepared data set it belongs to.")]


def _finite(rho: float | None) -> float | None:
    if rho is not None and not math.isfinite(rho):
        raise UserError(f"--rho {rho}: write a finite number")
    return rho


Rho = Annotated[
    float | None,
    typer.Option(min=0, callback=_finite, help="Strength of item influence; by default that of the data set."),
]


@app.command("train", epilog="Example: gfn4rec simulator train data/ml-1m --out simulators/ml-1m")
def train_command(
    directory: Annotated[Path, typer.Argument(metavar="DATA", help="A prepared data set.")],
    target: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the simulator goes.")],
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings of the training, as TOML.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the log, at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed gives another simulator.")] = None,
    rho: Rho = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted training stopped.")] = False,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Train a response model on a log, calibrate it, and report AUC and calibration error per behaviour."""
    from gfn4rec.data.dataset import SlateData
    from gfn4rec.data.read import default_rho
    from gfn4rec.simulator.checkpoint import FORMAT
    from gfn4rec.storage import MANIFEST, refuse_foreign
    from gfn4rec.training.response_loop import ResponseTrainingConfig
    from gfn4rec.training.response_training import train_response_model

    refuse_foreign(target, FORMAT)
    if not resume and (target / MANIFEST).exists():
        raise UserError(
            f"{target}: a simulator is there; choose another --out, or --resume if its training is not over"
        )
    settings = ResponseTrainingConfig.load(config) if config else ResponseTrainingConfig()
    changes = {"num_epochs": epochs, "seed": seed}
    settings = settings.model_copy(update={key: value for key, value in changes.items() if value is not None})
    with working(f"opening {directory}") as work:
        data = SlateData.open(directory, settings.model.history_length, choose_device(device, threads))
        influence = default_rho(data.manifest.name) if rho is None else rho

        def report(epoch: int, step: int, num_steps: int, loss: float) -> None:
            work.advance(f"epoch {epoch + 1} of {settings.num_epochs}, loss {loss:.4f}", step, num_steps)

        try:
            manifest = train_response_model(data, settings, target, influence, resume, report)
        except KeyboardInterrupt:
            is_kept = (target / MANIFEST).exists()
            tell("stopped; the same command with --resume goes on" if is_kept else "stopped before a pass was over")
            return INTERRUPTED
    if as_json:
        print_json({"out": str(target), "epochs": list(manifest.epochs), "metrics": manifest.model_dump()["metrics"]})
        return 0
    _print_metrics(manifest.model_dump()["metrics"])
    out().print(f"\nWritten to {target}; reliability.png shows the calibration")
    return 0


@app.command(
    "import-reference",
    epilog="Example: gfn4rec simulator import-reference weights/ --data data/ml-1m --out simulators/reference",
)
def import_command(
    weights: Annotated[
        Path, typer.Argument(metavar="WEIGHTS", help="Folder or file of safetensors, or a PyTorch checkpoint.")
    ],
    data: DataOption,
    target: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the simulator goes.")],
    rho: Rho = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the response model that the paper's authors published."""
    from gfn4rec.data.dataset import SlateData
    from gfn4rec.data.read import default_rho
    from gfn4rec.simulator.checkpoint import FORMAT
    from gfn4rec.storage import refuse_foreign
    from gfn4rec.training.reference_import import import_reference

    refuse_foreign(target, FORMAT)
    with working(f"reading {weights}"):
        opened = SlateData.open(data, device=choose_device(device, threads))
        influence = default_rho(opened.manifest.name) if rho is None else rho
        manifest = import_reference(weights, opened, target, influence)
    if as_json:
        print_json({"out": str(target), "metrics": manifest.model_dump()["metrics"]})
        return
    _print_metrics(manifest.model_dump()["metrics"])
    out().print(f"\nWritten to {target}")


@app.command(
    "frontier", epilog="Example: gfn4rec simulator frontier simulators/ml-1m --data data/ml-1m --plot frontier.png"
)
def frontier_command(
    directory: Annotated[Path, typer.Argument(metavar="SIM", help="A simulator.")],
    data: DataOption,
    temperature: Annotated[str, typer.Option(help="Temperatures, separated by commas.")] = "0.3,0.15,0.1,0.05,0.01",
    batches: Annotated[int, typer.Option(min=1, help="Batches to average over.")] = 50,
    users: Annotated[int, typer.Option(min=1, help="Users in a batch.")] = 128,
    seed: Annotated[int, typer.Option(help="Of users and samplers.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a PNG of it.")] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """What samplers attain that see the simulator's own probabilities: the ruler for every policy."""
    from gfn4rec.data.dataset import SlateData
    from gfn4rec.evaluation.frontier import measure_frontier, plot_frontier
    from gfn4rec.simulator.checkpoint import load_simulator
    from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment

    temperatures = parse_numbers("--temperature", temperature)
    check_plot(plot)
    with working(f"opening {directory}") as work:
        opened = SlateData.open(data, device=choose_device(device, threads))
        model, manifest = load_simulator(directory, opened)
        config = EnvironmentConfig(num_users=users, rho=manifest.rho, slate_size=opened.slate_size)
        environment = UserEnvironment(opened, model, config, seed)
        points = measure_frontier(environment, temperatures, batches, seed, work.advance)
    if plot is not None:
        plot.write_bytes(plot_frontier(points))
    if as_json:
        print_json({"points": [point.as_dict() for point in points]})
        return
    shown = table("sampler", "temperature", "reward", "coverage", "ILD", "ild_reference", "clipped")
    for point in points:
        shown.add_row(
            point.sampler,
            "" if point.temperature is None else f"{point.temperature:g}",
            f"{point.reward:.3f}",
            f"{point.coverage:.1f}",
            f"{point.ild:.3f}",
            f"{point.ild_reference:.3f}",
            f"{point.clipped_share:.2%}",
        )
    out().print(shown)


def _print_metrics(metrics: dict[str, dict[str, dict[str, Any]]]) -> None:
    has_truth = any(metric["bayes_auc"] is not None for each in metrics.values() for metric in each.values())
    truth = ["AUC of the truth"] if has_truth else []
    shown = table("split", "behaviour", "rows", "rate", "AUC", *truth, "calibration error")
    for split, behaviours in metrics.items():
        for name, metric in behaviours.items():
            scores = [metric["auc"], *([metric["bayes_auc"]] if has_truth else [])]
            shown.add_row(
                split,
                name,
                f"{metric['num_rows']:,}",
                f"{metric['rate']:.4f}",
                *("-" if score is None else f"{score:.4f}" for score in scores),
                f"{metric['calibration_error']:.4f}",
            )
    out().print(shown)
