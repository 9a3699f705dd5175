"""`gfn4rec evaluate`: the figures of a run."""

from pathlib import Path
from typing import Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.figures import print_figures, print_ruler
from gfn4rec.cli.output import JsonOption, out, parse_numbers, print_json, working
from gfn4rec.errors import UserError


def evaluate_command(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One run, or several to compare.")],
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
    from gfn4rec.evaluation.curve import plot_curves

    temperatures = parse_numbers("--temperature", temperature)
    if ranking not in ("sorted", "unsorted"):
        raise UserError(f"--ranking {ranking}: choose sorted or unsorted")
    chosen = choose_device(device, threads)
    found = {}
    with working(f"opening {directories[0]}") as work:
        for number, directory in enumerate(directories):
            found[directory.name] = api.evaluate(
                directory,
                simulator,
                data,
                temperatures,
                batches,
                0 if number else ruler_batches,  # one ruler for all
                ranking,  # type: ignore[arg-type]
                seed,
                chosen,
                work.advance,
            )
    ruler = found[directories[0].name].ruler
    rows = {name: each.with_ruler(ruler) for name, each in found.items()}
    if plot is not None:
        plot.write_bytes(plot_curves(rows, ruler))
    if as_json:
        runs = {name: {"rows": rows[name], "test": each.test} for name, each in found.items()}
        print_json({"runs": runs, "ruler": [point.as_dict() for point in ruler]})
        return
    many = len(found) > 1
    print_figures({f"{name} {way}" if many else way: row for name, ways in rows.items() for way, row in ways.items()})
    if ruler:
        out().print()
        print_ruler(ruler)
    out().print()
    for name, each in found.items():
        if each.test is not None:
            prefix = f"{name}, " if many else ""
            out().print(f"{prefix}test slates: R-NDCG {each.test['r_ndcg']:.4f}, R-MRR {each.test['r_mrr']:.4f}")
