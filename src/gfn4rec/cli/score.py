"""`gfn4rec score`: a flow's estimates of the rewards of slates, and how well they agree with the simulator."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device, following
from gfn4rec.cli.output import JsonOption, out, print_json, table, tell, working
from gfn4rec.cli.recommend import parse_history, split_ids
from gfn4rec.errors import UserError
from gfn4rec.metrics import METRICS

if TYPE_CHECKING:
    from gfn4rec.serving.recommender import SlateScore

_EXPECTED = METRICS["expected_reward"]
_AGREEMENT = {
    "within_request": "Correlation within a request",
    "rank_correlation": "Correlation over all",
    "score": "Mean score",
    "expected_reward": f"Mean {_EXPECTED.label.lower()}",
}


def score_command(
    directory: Annotated[
        Path, typer.Argument(metavar="RUN", help="Directory of a run of gfn, gfn-energy or gfn-rerank.")
    ],
    slate: Annotated[
        list[str] | None,
        typer.Option(metavar="ITEM,ITEM,...", help="A slate to score, item ids separated by commas; repeatable."),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Id of the user to whom the slates are shown.")] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="ITEM,...", help="Replaces the user's history in the log, as in `gfn4rec recommend`."),
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Without --slate: number of batches of users to evaluate; default: 5.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Without --slate: seed of the users and slates; default: 0.")] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it was moved.")] = None,
    simulator: Annotated[
        Path | None,
        typer.Option("--simulator", metavar="SIM", help="Simulator to compare with; default: that of the run."),
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the expected reward of given slates with a trained GFN policy.

    Without --slate, measure how well its estimates agree with the simulator on random, logged and generated slates.
    """
    from gfn4rec import api

    _check_options(slate, user, history, batches, seed)
    chosen = choose_device(device, threads)
    if slate is None:
        with working(f"opening {directory}") as work:
            report = partial(following(threads, work.advance), "scoring")
            agreement = api.evaluate_scores(directory, simulator, data, batches or 5, seed or 0, chosen, tell, report)
        _print_agreement(agreement, as_json)
    else:
        query = api.Query(user, None if history is None else parse_history(history))
        with working(f"opening {directory}"):
            recommender = api.Recommender.open(directory, data, simulator, True, chosen, tell)
            scores = recommender.score(query, [split_ids(text) for text in slate], tell)
        _print_scores(scores, as_json)


def _check_options(
    slate: list[str] | None, user: str | None, history: str | None, batches: int | None, seed: int | None
) -> None:
    if slate is None and (user is not None or history is not None):
        raise UserError("--user and --history belong to a --slate; name one")
    if slate is not None and user is None and history is None:
        raise UserError("--slate needs somebody to show it to; add --user or --history")
    if slate is not None and (batches is not None or seed is not None):
        raise UserError("--batches and --seed are for measuring without --slate; leave them out")


def _print_scores(scores: Sequence["SlateScore"], as_json: bool) -> None:
    if as_json:
        print_json({"slates": [asdict(score) for score in scores]})
        return
    lines = table("Slate", "Score", f"{_EXPECTED.label} in the simulator")
    for score in scores:
        expected = "-" if score.expected_reward is None else _EXPECTED.write(score.expected_reward)
        lines.add_row(", ".join(score.items), f"{score.score:.3f}", expected)
    out().print(lines)


def _print_agreement(agreement: dict[str, dict[str, float | None]], as_json: bool) -> None:
    if as_json:
        print_json(agreement)
        return
    lines = table("Slates", "Number", *_AGREEMENT.values())
    for name, row in agreement.items():
        values = ("-" if row[key] is None else f"{row[key]:.3f}" for key in _AGREEMENT)
        lines.add_row(name, f"{row['slates']:,.0f}", *values)
    out().print("Rank correlation of score and expected reward, over the slates of a request and over all slates:")
    out().print(lines)
