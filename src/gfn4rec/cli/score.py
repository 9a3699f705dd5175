"""`gfn4rec score`: the reward that a policy with a flow expects of slates, and how far it can be trusted."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.output import JsonOption, out, print_json, table, tell, working
from gfn4rec.cli.recommend import parse_history, split_ids
from gfn4rec.errors import UserError


def score_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run of gfn, gfn-energy or gfn-rerank.")],
    slate: Annotated[
        list[str] | None, typer.Option(help="Items separated by commas; may be repeated. Without: see above.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whom the slates are shown to.")] = None,
    history: Annotated[str | None, typer.Option(help="Instead of the log's, as in `gfn4rec recommend`.")] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Batches to measure with, if no slate is given; by default 5.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of users and slates then; by default 0.")] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it has moved.")] = None,
    simulator: Annotated[
        Path | None, typer.Option("--simulator", metavar="SIM", help="Other users than the run's.")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """The expected reward of slates that you propose, as the flow estimates it.

    Without --slate: how well such estimates agree with the simulator, on random, logged and generated slates.
    """
    from gfn4rec import api

    if slate is None and (user is not None or history is not None):
        raise UserError("--user and --history belong to a --slate; name one")
    if slate is not None and user is None and history is None:
        raise UserError("whom for? name a --user or a --history")
    if slate is not None and (batches is not None or seed is not None):
        raise UserError("--batches and --seed are of a measurement; leave them out beside a --slate")
    chosen = choose_device(device, threads)
    if slate is None:
        with working(f"opening {directory}") as work:
            report = partial(work.advance, "scoring")
            agreement = api.evaluate_scores(directory, simulator, data, batches or 5, seed or 0, chosen, tell, report)
        if as_json:
            print_json(agreement)
        else:
            _print_agreement(agreement)
        return
    query = api.Query(user, None if history is None else parse_history(history))
    with working(f"opening {directory}"):
        recommender = api.Recommender.open(directory, data, chosen, simulator, tell)
        scores = recommender.score(query, [split_ids(each) for each in slate], tell)
    if as_json:
        print_json({"slates": [asdict(each) for each in scores]})
        return
    shown = table("slate", "score", "simulator")
    for each in scores:
        expected = "-" if each.expected_reward is None else f"{each.expected_reward:.3f}"
        shown.add_row(", ".join(each.items), f"{each.score:.3f}", expected)
    out().print(shown)


def _print_agreement(agreement: dict[str, dict[str, float | None]]) -> None:
    shown = table("slates", "number", "within a request", "over all", "mean score", "mean expected reward")
    for kind, row in agreement.items():
        keys = ("within_request", "rank_correlation", "score", "expected_reward")
        figures = ("-" if row[key] is None else f"{row[key]:.3f}" for key in keys)
        shown.add_row(kind, f"{row['slates']:,.0f}", *figures)
    out().print("Rank correlation of score and expected reward, over the slates of a request and over all:")
    out().print(shown)
