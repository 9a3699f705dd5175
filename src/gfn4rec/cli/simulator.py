"""`gfn4rec simulator`: train, import-reference, frontier."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device, following, threads_to_keep
from gfn4rec.cli.list_effects import EffectOption, read_effects
from gfn4rec.cli.metrics import print_oracle
from gfn4rec.cli.output import INTERRUPTED, JsonOption, check_plot, out, parse_numbers, print_json, table, tell, working
from gfn4rec.data.describe import FEWEST_POSITIVES
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.simulator.checkpoint import Metric, SimulatorManifest

app = typer.Typer(
    help="Train or import a simulator (a model of how users respond to slates), and measure what rewards it allows.",
    no_args_is_help=True,
)

DataOption = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="The prepared data set whose users are simulated.")
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory to write the simulator to.")]


def _finite(rho: float | None) -> float | None:
    if rho is not None and not math.isfinite(rho):
        raise UserError(f"--rho {rho}: write a finite number")
    return rho


def _finite_pessimism(pessimism: float | None) -> float | None:
    if pessimism is not None and not math.isfinite(pessimism):
        raise UserError(f"--pessimism {pessimism}: write a finite number")
    return pessimism


RhoOption = Annotated[
    float | None,
    typer.Option(
        "--rho",
        min=0,
        callback=_finite,
        help="How much similar items in a slate lower each other's responses; default: the data set's.",
    ),
]


@app.command("train", epilog="Example: gfn4rec simulator train data/ml-1m --out simulators/ml-1m")
def train_command(
    directory: Annotated[Path, typer.Argument(metavar="DATA", help="A prepared data set.")],
    target: OutOption,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Training settings, as a TOML file (docs/simulator.md).")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the log, at most; default: 10.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, batches and dropout; default: 0.")] = None,
    rho: RhoOption = None,
    effect: EffectOption = None,
    pessimism: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=_finite_pessimism,
            help=(
                "Lowers the predicted responses to items that users hardly ever choose. They are halved for an item "
                "that the user chooses X times as often as a random item; 0 lowers nothing. Default: 10."
            ),
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Train the paper's simulator: one network, without pessimism.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted training.")] = False,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Train a simulator: a model of the users' responses, fitted to a prepared log and calibrated.

    Prints how well it predicts each behaviour on held-out rows (AUC and calibration error), and how well for items
    with few and with many training rows. It also learns which items users choose, and predicts fewer responses to the
    others, about which the log says nothing (--pessimism).
    """
    from gfn4rec.data.dataset import SlateData
    from gfn4rec.simulator.checkpoint import FORMAT, read_simulator_manifest
    from gfn4rec.storage import MANIFEST, refuse_foreign
    from gfn4rec.training.response_loop import ResponseTrainingConfig
    from gfn4rec.training.response_training import train_response_model

    refuse_foreign(target, FORMAT)
    if not resume and (target / MANIFEST).exists():
        raise UserError(f"{target}: holds a simulator; choose another --out, or --resume its training if unfinished")
    settings = ResponseTrainingConfig.load(config) if config else ResponseTrainingConfig()
    changes = {"num_epochs": epochs, "seed": seed}
    settings = settings.model_copy(update={key: value for key, value in changes.items() if value is not None})
    if paper and (settings.caution is not None or pessimism is not None):
        raise UserError("--paper: the paper's simulator has no pessimism; leave out one of the two")
    if not paper:
        settings = settings.with_caution(pessimism)
    effects = read_effects(effect)
    stored = read_simulator_manifest(target).num_threads if resume else None
    chosen = choose_device(device, threads or stored or threads_to_keep(None))
    with working(f"opening {directory}") as work:
        data = SlateData.open(directory, settings.model.history_length, chosen)

        def report(epoch: int, step: int, num_steps: int, loss: float) -> None:
            done, total = epoch * num_steps + step, settings.num_epochs * num_steps
            work.advance("training", done, total, f"epoch {epoch + 1} of {settings.num_epochs}, loss {loss:.4f}")

        try:
            influence = data.manifest.rho if rho is None else rho
            manifest = train_response_model(data, settings, target, influence, resume, report, effects)
        except KeyboardInterrupt:
            is_saved = (target / MANIFEST).exists()
            tell("stopped; add --resume to continue" if is_saved else "stopped in the first epoch; nothing was saved")
            return INTERRUPTED
    _print(manifest, target, as_json)
    return 0


@app.command(
    "import-reference",
    epilog="Example: gfn4rec simulator import-reference weights/ --data data/ml-1m --out simulators/reference",
)
def import_command(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS",
            help="The authors' PyTorch checkpoint, or its weights as safetensors (docs/simulator.md says where it is).",
        ),
    ],
    data: DataOption,
    target: OutOption,
    rho: RhoOption = None,
    effect: EffectOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the simulator that the paper's authors published for ML-1M."""
    from gfn4rec.data.dataset import SlateData
    from gfn4rec.simulator.checkpoint import FORMAT
    from gfn4rec.storage import refuse_foreign
    from gfn4rec.training.reference_import import import_reference

    refuse_foreign(target, FORMAT)
    effects = read_effects(effect)
    with working(f"reading {weights}"):
        opened = SlateData.open(data, device=choose_device(device, threads))
        influence = opened.manifest.rho if rho is None else rho
        manifest = import_reference(weights, opened, target, influence, effects)
    _print(manifest, target, as_json)


@app.command(
    "frontier", epilog="Example: gfn4rec simulator frontier simulators/ml-1m --data data/ml-1m --plot frontier.png"
)
def frontier_command(
    directory: Annotated[Path, typer.Argument(metavar="SIM", help="A simulator.")],
    data: DataOption,
    temperature: Annotated[
        str, typer.Option(metavar="T,T,...", help="Temperatures of the pointwise oracle, separated by commas.")
    ] = "0.3,0.15,0.1,0.05,0.01",
    batches: Annotated[int, typer.Option(min=1, help="Batches of users to average over.")] = 50,
    users: Annotated[int, typer.Option(min=1, help="Users in a batch.")] = 128,
    list_oracle: Annotated[
        bool,
        typer.Option(
            "--list-oracle",
            help="Measure the list oracle, too; it takes some seconds for each batch and temperature.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of users and slates.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a PNG of reward against coverage and diversity (ILD).")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what rewards a simulator allows, with random slates and with oracles.

    Oracles see the simulator's true response probabilities. The pointwise oracle samples items by their expected
    rewards, at each temperature. The slate-aware greedy oracle builds each slate item by item, and takes into account
    that items change each other's responses. The list oracle (--list-oracle) samples whole slates by their expected
    rewards. A good policy comes close to the oracles.
    """
    from gfn4rec.data.dataset import SlateData
    from gfn4rec.evaluation.frontier import measure_frontier
    from gfn4rec.evaluation.list_frontier import measure_list_frontier
    from gfn4rec.evaluation.plots import plot_frontier
    from gfn4rec.simulator.checkpoint import SimulatorFiles
    from gfn4rec.training.config import UsersConfig
    from gfn4rec.training.opened_run import Users

    temperatures = parse_numbers("--temperature", temperature)
    check_plot(plot)
    with working(f"opening {directory}") as work:
        opened = SlateData.open(data, device=choose_device(device, threads))
        loaded = Users.load(SimulatorFiles.open(directory), opened, UsersConfig(num_users=users))
        environment = loaded.environment(seed)
        follow = following(threads, work.advance)
        points = measure_frontier(environment, temperatures, batches, seed, follow)
        if list_oracle:
            points += measure_list_frontier(environment, temperatures, batches, seed, follow)
    if plot is not None:
        plot.write_bytes(plot_frontier(points))
    if as_json:
        print_json({"points": [point.as_dict() for point in points]})
        return
    print_oracle("Sampler", points)


def _print(manifest: "SimulatorManifest", target: Path, as_json: bool) -> None:
    """Print how well each behaviour is predicted, and where the simulator is."""
    if as_json:
        keys = {"metrics"} | ({"epochs", "pessimism", "choice_auc", "support"} if manifest.epochs else set())
        print_json({"out": str(target), **manifest.model_dump(mode="json", include=keys)})
        return
    rows = [(split, name, metric) for split, of in manifest.metrics.items() for name, metric in of.items()]
    has_truth = any(metric.bayes_auc is not None for _, _, metric in rows)
    truth = ["Best possible AUC"] if has_truth else []
    printed = table("Split", "Behaviour", "Rows", "Rate", "AUC", *truth, "Calibration error")
    for split, name, metric in rows:
        scores = [_score(metric, score) for score in (metric.auc, metric.bayes_auc)[: 1 + has_truth]]
        printed.add_row(
            split, name, f"{metric.num_rows:,}", f"{metric.rate:.4f}", *scores, f"{metric.calibration_error:.4f}"
        )
    out().print(printed)
    if manifest.support:
        _print_support(manifest)
    plot = "; reliability.png and support.png show the calibration" if manifest.support else ""
    out().print(f"\nWritten to {target}{plot}")


def _print_support(manifest: "SimulatorManifest") -> None:
    """Print what is predicted, and what is not known, of items with few and with many rows."""
    is_cautious = manifest.kind == "cautious"
    unknown = ["Disagreement", "Trust"] if is_cautious else []
    printed = table(
        "Training rows",
        "Items",
        "Test rows",
        *(f"{name}, predicted/observed" for name in manifest.data.behaviours),
        *unknown,
    )
    for part in manifest.support:
        rows = f"{part.fewest} or more" if part.most is None else f"{part.fewest} to {part.most}"
        pairs = [
            f"{part.predicted[name]:.3f} / {part.observed[name]:.3f}" if part.num_rows else "-"
            for name in manifest.data.behaviours
        ]
        values = [part.disagreement, part.trust] if is_cautious else []
        shares = ["-" if value is None else f"{value:.3f}" for value in values]
        printed.add_row(rows, f"{part.num_items:,}", f"{part.num_rows:,}", *pairs, *shares)
    out().print("\nItems with few and with many training rows")
    out().print(printed)
    if is_cautious:
        auc = ", ".join(f"{split} {value:.4f}" for split, value in manifest.choice_auc.items())
        out().print(
            "Disagreement: standard deviation of an item's expected reward over the simulator's networks.\n"
            f"Trust: pessimism {manifest.pessimism:g} multiplies predicted probabilities by it; 1 changes nothing.\n"
            f"AUC of telling chosen items from random ones, on which trust rests: {auc}"
        )


def _score(metric: "Metric", score: float | None) -> str:
    """Return an AUC, unless there are too few rows of either response to measure it."""
    num_positives = round(metric.rate * metric.num_rows)
    if min(num_positives, metric.num_rows - num_positives) < FEWEST_POSITIVES:
        return "too few"
    return "-" if score is None else f"{score:.4f}"
