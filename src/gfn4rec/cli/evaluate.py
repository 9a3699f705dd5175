"""`gfn4rec evaluate`: the metrics of runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device, following
from gfn4rec.cli.decoder import DecoderOption, DecoderSetOption, chosen_decoder
from gfn4rec.cli.metrics import Row, print_held_out, print_metrics, print_oracle, write_metrics
from gfn4rec.cli.output import JsonOption, check_plot, out, parse_numbers, print_json, tell, working
from gfn4rec.errors import UserError
from gfn4rec.metrics import by_authors_rule

if TYPE_CHECKING:
    from gfn4rec.api import Evaluation, Oracles
    from gfn4rec.evaluation.frontier import FrontierPoint
    from gfn4rec.evaluation.held_out_protocol import HeldOutResults, HeldOutRow

Value = TypeVar("Value")
_RULES = ("sorted", "unsorted")


def evaluate_command(
    directories: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Directory of a run; several are compared.")
    ],
    simulator: Annotated[
        Path | None,
        typer.Option("--simulator", metavar="SIM", help="Evaluate with this simulator instead of the run's own."),
    ] = None,
    pessimism: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Lowers the responses to items that simulated users hardly ever choose, instead of the simulator's "
            "own pessimism; 0 lowers nothing (docs/simulator.md).",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it has moved.")] = None,
    temperature: Annotated[
        str, typer.Option(metavar="T,T,...", help="Temperatures to sample slates at, separated by commas.")
    ] = "1",
    batches: Annotated[int, typer.Option(min=1, help="Batches of users to average over.")] = 100,
    oracle_batches: Annotated[
        int, typer.Option(min=0, help="Batches of users to measure the oracles with; 0 leaves them out.")
    ] = 20,
    list_oracle: Annotated[
        bool,
        typer.Option(
            "--list-oracle",
            help="Measure the list oracle, too, which sees how items of a slate change each other's responses. "
            "It takes some seconds for each batch and temperature.",
        ),
    ] = False,
    reward_weight: Annotated[
        str,
        typer.Option(
            metavar="W,W,...",
            help="Weights of the reward against the prior, for policies that have one; 0 is the prior alone.",
        ),
    ] = "1",
    decoder: DecoderOption = None,
    decoder_set: DecoderSetOption = None,
    liked: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Smallest reward of an item that counts as liked in held-out metrics; "
            "default: the smallest one in the training log that is at least the mean.",
        ),
    ] = None,
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
    """Measure trained policies on the test slates of the log, and in the simulator beside oracles.

    Held-out metrics say whether a policy, free to show any item, finds what users liked next in the log; popularity and
    random slates are measured beside it, and a verdict sums it up. In the simulator, if there is one, slates are chosen
    greedily, sampled at each temperature, and made by the decoder. docs/training.md explains the metrics.
    """
    from gfn4rec import api

    temperatures = parse_numbers("--temperature", temperature)
    weights = parse_numbers("--reward-weight", reward_weight, with_zero=True)
    check_plot(plot)
    _check_choices(ranking, liked, list_oracle and not oracle_batches)
    if plot is not None and simulator is None:
        _refuse_empty_plot(plot, directories)
    chosen, made_by = choose_device(device, threads), chosen_decoder(decoder, decoder_set)
    evaluations, oracles, references = dict[str, api.Evaluation](), api.Oracles(), api.References()
    with working(f"opening {directories[0]}") as work:
        report_batch = following(threads, work.advance)
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
                report_batch,
                tell,
                oracles,
                weights,
                liked,
                references=references,
                pessimism=pessimism,
                list_oracle=list_oracle,
                decoder=made_by,
            )
    report = _report(evaluations, oracles, ranking == "unsorted")
    if plot is not None:
        report.plot(plot)
    if as_json:
        print_json({"runs": report.as_json(), **({} if made_by is None else {"decoder": made_by.as_dict()})})
    else:
        report.print()


@dataclass(frozen=True)
class _Report:
    """Evaluations by run; with the rows and test metrics by the chosen rule, and oracles by title."""

    evaluations: Mapping[str, "Evaluation"]
    rows: Mapping[str, Mapping[str, Row]]
    tests: Mapping[str, Mapping[str, float]]
    oracles: Mapping[str, "list[FrontierPoint]"]

    def as_json(self) -> dict[str, object]:
        """Return all that was measured, by run."""
        return {run: self._run_as_json(run, evaluation) for run, evaluation in self.evaluations.items()}

    def _run_as_json(self, run: str, evaluation: "Evaluation") -> dict[str, object]:
        return {
            "rows": self.rows[run],
            "test": self.tests.get(run),
            "oracle": [point.as_dict() for point in evaluation.oracle],
            "held_out": None if evaluation.held_out is None else evaluation.held_out.model_dump(mode="json"),
            "verdict": {name: verdict.as_dict() for name, verdict in evaluation.verdicts().items()},
        }

    def plot(self, path: Path) -> None:
        """Write the plot."""
        from gfn4rec.evaluation.plots import plot_policies

        path.write_bytes(plot_policies(self.rows, self.oracles))

    def print(self) -> None:
        """Print the tables, then the verdicts."""
        ways = self._named(self.rows)
        if ways:
            print_metrics(ways)
            out().print()
        for title, oracle in self.oracles.items():
            print_oracle(title, oracle)
            out().print()
        for run, test in self.tests.items():
            out().print(f"{f'{run}, ' if self._is_many else ''}test slates: {write_metrics(test)}")
        for results, runs in self._held_out():
            out().print()
            print_held_out(results, self._named(runs))
        verdicts = self._named({run: evaluation.verdicts() for run, evaluation in self.evaluations.items()})
        for name, verdict in verdicts.items():
            out().print(f"\n{f'{name}: ' if len(verdicts) > 1 else ''}{verdict.summary}")

    @property
    def _is_many(self) -> bool:
        return len(self.evaluations) > 1

    def _named(self, runs: Mapping[str, Mapping[str, Value]]) -> dict[str, Value]:
        """Return the rows of all runs by their names, which name the run if there are several."""
        return {
            f"{run} {way}" if self._is_many else way: row for run, rows in runs.items() for way, row in rows.items()
        }

    def _held_out(self) -> "list[tuple[HeldOutResults, dict[str, dict[str, HeldOutRow]]]]":
        """Return held-out rows by run, with the results of the first one; runs of one data set share a table."""
        groups: list[tuple[HeldOutResults, dict[str, dict[str, HeldOutRow]]]] = []
        for run, evaluation in self.evaluations.items():
            results = evaluation.held_out
            if results is None:
                continue
            same = next((runs for first, runs in groups if first.references == results.references), None)
            if same is None:
                groups.append((results, {run: results.rows}))
            else:
                same[run] = results.rows
        return groups


def _check_choices(ranking: str, liked: float | None, is_list_oracle_idle: bool) -> None:
    if ranking not in _RULES:
        raise UserError(f"--ranking {ranking}: choose {' or '.join(_RULES)}")
    if liked is not None and not math.isfinite(liked):
        raise UserError(f"--liked {liked}: write a finite number, the smallest reward of a liked item")
    if is_list_oracle_idle:
        raise UserError("--list-oracle: needs batches to measure it with; give --oracle-batches a number above 0")


def _refuse_empty_plot(plot: Path, directories: list[Path]) -> None:
    from gfn4rec.training.run import Run

    if all(Run.open(directory).manifest.simulator_path is None for directory in directories):
        problem = f"it shows rewards in a simulator, and {directories[0]} was trained without one"
        raise UserError(f"--plot {plot}: {problem}; name one with --simulator")


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
    return _Report(evaluations, rows, tests, _titles(evaluations, list(oracles.values())))


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
