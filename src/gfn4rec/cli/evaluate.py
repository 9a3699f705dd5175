"""`gfn4rec evaluate`: the figures of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.figures import print_figures, print_ruler
from gfn4rec.cli.output import JsonOption, check_plot, out, parse_numbers, print_json, tell, working
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.api import Evaluation
    from gfn4rec.evaluation.frontier import FrontierPoint


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
    from gfn4rec.evaluation.ranking import RankingRule, by_rule

    temperatures = parse_numbers("--temperature", temperature)
    check_plot(plot)
    rules: dict[str, RankingRule] = {"sorted": "sorted", "unsorted": "unsorted"}
    if ranking not in rules:
        raise UserError(f"--ranking {ranking}: choose sorted or unsorted")
    chosen = choose_device(device, threads)
    found: dict[str, api.Evaluation] = {}
    rulers: api.Rulers = {}
    with working(f"opening {directories[0]}") as work:
        for name, directory in _names(directories).items():
            found[name] = api.evaluate(
                directory,
                simulator,
                data,
                temperatures,
                batches,
                ruler_batches,
                seed,
                chosen,
                work.advance,
                tell,
                rulers,
            )
    rows = {
        name: {way: row | by_rule(row, rules[ranking]) for way, row in each.with_ruler().items()}
        for name, each in found.items()
    }
    tests = {
        name: each.test | by_rule(each.test, rules[ranking]) for name, each in found.items() if each.test is not None
    }
    by_title = _titles(found, list(rulers.values()))
    if plot is not None:
        plot.write_bytes(plot_curves(rows, by_title))
    if as_json:
        runs = {
            name: {"rows": rows[name], "test": tests.get(name), "ruler": [point.as_dict() for point in each.ruler]}
            for name, each in found.items()
        }
        print_json({"runs": runs})
        return
    many = len(found) > 1
    print_figures({f"{name} {way}" if many else way: row for name, ways in rows.items() for way, row in ways.items()})
    for title, ruler in by_title.items():
        out().print()
        print_ruler(title, ruler)
    out().print()
    for name, test in tests.items():
        prefix = f"{name}, " if many else ""
        out().print(f"{prefix}test slates: R-NDCG {test['r_ndcg']:.4f}, R-MRR {test['r_mrr']:.4f}")


def _names(directories: list[Path]) -> dict[str, Path]:
    """Runs by their directory's name, or by the whole path where two have the same name."""
    names = [directory.name for directory in directories]
    return {
        directory.name if names.count(directory.name) == 1 else str(directory): directory for directory in directories
    }


def _titles(found: dict[str, "Evaluation"], rulers: list[list["FrontierPoint"]]) -> dict[str, list["FrontierPoint"]]:
    """The rulers, with the runs that each is for if there are several: runs may have been made for different users."""
    if len(rulers) == 1:
        return {"ruler": rulers[0]}
    return {f"ruler of {', '.join(name for name, each in found.items() if each.ruler is one)}": one for one in rulers}
