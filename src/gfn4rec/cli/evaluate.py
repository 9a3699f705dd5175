"""`gfn4rec evaluate`: the metrics of runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.metrics import Row, print_metrics, print_oracle, write_metrics
from gfn4rec.cli.output import JsonOption, check_plot, out, parse_numbers, print_json, tell, working
from gfn4rec.errors import UserError
from gfn4rec.metrics import by_authors_rule

if TYPE_CHECKING:
    from gfn4rec.api import Evaluation, Oracles
    from gfn4rec.evaluation.frontier import FrontierPoint

_RULES = ("sorted", "unsorted")


def evaluate_command(
    directories: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Directory of a run; several are compared.")
    ],
    simulator: Annotated[
        Path | None,
        typer.Option("--simulator", metavar="SIM", help="Evaluate with this simulator instead of the run's own."),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it has moved.")] = None,
    temperature: Annotated[
        str, typer.Option(metavar="T,T,...", help="Temperatures to sample slates at, separated by commas.")
    ] = "1",
    batches: Annotated[int, typer.Option(min=1, help="Batches of users to average over.")] = 100,
    oracle_batches: Annotated[
        int, typer.Option(min=0, help="Batches of users to measure the oracles with; 0 leaves them out.")
    ] = 20,
    ranking: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="Ranking metrics by the paper's equations (sorted), or as the authors' code computes them (unsorted).",
        ),
    ] = "sorted",
    seed: Annotated[int, typer.Option(help="Seed of users and sampled slates.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a PNG of expected reward against coverage.")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure reward, diversity and ranking quality of trained policies, beside those of oracles.

    Slates are chosen greedily, and sampled at each temperature. Oracles choose slates by the simulator's true response
    probabilities. Ranking metrics are also measured on the test slates of the log. docs/training.md explains the
    metrics.
    """
    from gfn4rec import api

    temperatures = parse_numbers("--temperature", temperature)
    check_plot(plot)
    if ranking not in _RULES:
        raise UserError(f"--ranking {ranking}: choose {' or '.join(_RULES)}")
    chosen = choose_device(device, threads)
    evaluations: dict[str, api.Evaluation] = {}
    oracles: api.Oracles = {}
    with working(f"opening {directories[0]}") as work:
        for name, directory in _names(directories).items():
            evaluations[name] = api.evaluate(
                directory,
                simulator,
                data,
                temperatures,
                batches,
                oracle_batches,
                seed,
                chosen,
                work.advance,
                tell,
                oracles,
            )
    report = _report(evaluations, oracles, ranking == "unsorted")
    if plot is not None:
        report.plot(plot)
    if as_json:
        print_json({"runs": {name: report.as_json(name, run.oracle) for name, run in evaluations.items()}})
    else:
        report.print()


@dataclass(frozen=True)
class _Report:
    """Metrics by run and way of choosing slates, test metrics by run, and oracles by title."""

    rows: Mapping[str, Mapping[str, Row]]
    tests: Mapping[str, Mapping[str, float]]
    oracles: Mapping[str, "list[FrontierPoint]"]

    def as_json(self, run: str, oracle: "list[FrontierPoint]") -> dict[str, object]:
        """Return all that was measured of a run."""
        return {
            "rows": self.rows[run],
            "test": self.tests.get(run),
            "oracle": [point.as_dict() for point in oracle],
        }

    def plot(self, path: Path) -> None:
        """Write the plot."""
        from gfn4rec.evaluation.plots import plot_policies

        path.write_bytes(plot_policies(self.rows, self.oracles))

    def print(self) -> None:
        """Print the tables."""
        many = len(self.rows) > 1
        ways = {(run, way): row for run, rows in self.rows.items() for way, row in rows.items()}
        print_metrics({f"{run} {way}" if many else way: row for (run, way), row in ways.items()})
        for title, oracle in self.oracles.items():
            out().print()
            print_oracle(title, oracle)
        out().print()
        for run, test in self.tests.items():
            out().print(f"{f'{run}, ' if many else ''}test slates: {write_metrics(test)}")


def _report(evaluations: Mapping[str, "Evaluation"], oracles: "Oracles", is_authors_rule: bool) -> _Report:
    rows: dict[str, dict[str, Row]] = {
        run: {way: by_authors_rule(row) if is_authors_rule else row for way, row in evaluation.with_oracle().items()}
        for run, evaluation in evaluations.items()
    }
    tests = {
        run: by_authors_rule(evaluation.test) if is_authors_rule else evaluation.test
        for run, evaluation in evaluations.items()
        if evaluation.test is not None
    }
    return _Report(rows, tests, _titles(evaluations, list(oracles.values())))


def _names(directories: list[Path]) -> dict[str, Path]:
    """Return runs by the name of their directory, or by the whole path where two have the same name."""
    names = [directory.name for directory in directories]
    return {
        directory.name if names.count(directory.name) == 1 else str(directory): directory for directory in directories
    }


def _titles(
    evaluations: Mapping[str, "Evaluation"], oracles: list["list[FrontierPoint]"]
) -> dict[str, "list[FrontierPoint]"]:
    """Return oracles by title. Runs with different users have an oracle each, whose title names them."""
    if len(oracles) == 1:
        return {"oracle": oracles[0]}
    return {
        f"oracle of {', '.join(run for run, evaluation in evaluations.items() if evaluation.oracle is oracle)}": oracle
        for oracle in oracles
    }
