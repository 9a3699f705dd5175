"""`gfn4rec evaluate`: the figures of a run."""

from pathlib import Path
from typing import Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.figures import print_figures, print_ruler
from gfn4rec.cli.output import JsonOption, out, parse_numbers, print_json, working
from gfn4rec.errors import UserError


def evaluate_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run.")],
    simulator: Annotated[
        Path | None, typer.Option("--simulator", metavar="SIM", help="Other users than the run's.")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it has moved.")] = None,
    temperature: Annotated[str, typer.Option(help="Temperatures, separated by commas.")] = "1",
    batches: Annotated[int, typer.Option(min=1, help="Batches to average over.")] = 100,
    ruler_batches: Annotated[int, typer.Option(min=0, help="Batches of the ruler; 0 leaves it out.")] = 20,
    ranking: Annotated[
        str, typer.Option(help="sorted, or unsorted: ranking metrics as the authors' code computes them.")
    ] = "sorted",
    seed: Annotated[int, typer.Option(help="Of users and slates.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write reward against coverage as PNG.")] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reward, ranking and diversity of a run's policy, greedy and sampled, beside the ruler's."""
    from gfn4rec import api
    from gfn4rec.evaluation.curve import plot_curve

    temperatures = parse_numbers("--temperature", temperature)
    if ranking not in ("sorted", "unsorted"):
        raise UserError(f"--ranking {ranking}: choose sorted or unsorted")
    chosen = choose_device(device, threads)
    with working(f"opening {directory}") as work:
        found = api.evaluate(
            directory,
            simulator,
            data,
            temperatures,
            batches,
            ruler_batches,
            ranking,  # type: ignore[arg-type]
            seed,
            chosen,
            work.advance,
        )
    if plot is not None:
        plot.write_bytes(plot_curve(found.rows, found.ruler, directory.name))
    if as_json:
        ruler = [point.as_dict() for point in found.ruler]
        print_json({"rows": found.rows, "ruler": ruler, "test": found.test})
        return
    print_figures(found.rows)
    if found.ruler:
        out().print()
        print_ruler(found.ruler)
    if found.test is not None:
        out().print(f"\ntest slates: R-NDCG {found.test['r_ndcg']:.4f}, R-MRR {found.test['r_mrr']:.4f}")
