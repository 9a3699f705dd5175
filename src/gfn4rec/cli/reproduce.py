"""`gfn4rec reproduce`: the paper's tables and figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gfn4rec.cli.compute import DeviceOption, choose_device
from gfn4rec.cli.output import INTERRUPTED, JsonOption, out, print_json, table, tell, time_left, working
from gfn4rec.cli.search import SummariesOption, search_progress
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.cli.output import Work
    from gfn4rec.experiments.campaign import Progress, Watch
    from gfn4rec.experiments.tables import Cell, Table


def reproduce_command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="data, online, offline, ranking, balance, curves, b_f, b_r, b_z, time, transfer, feasibility, claims; "
            "all of these; objectives, frontier, ablations, alternatives, rates, authors; or studies, all of those.",
        ),
    ],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="A prepared data set.")],
    target: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs, tables, plots and the page go.")],
    simulator: Annotated[
        Path | None,
        typer.Option("--simulator", metavar="SIM", help="The users who answer; by default some are trained."),
    ] = None,
    budget: Annotated[str, typer.Option(help="quick, short, or paper: the full protocol.")] = "quick",
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per model, in place of the budget's.")] = None,
    sensitivity_seeds: Annotated[
        int | None, typer.Option(min=1, help="The same for values of b_f, b_r and b_z, and in studies.")
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings by policy or model, as a search writes them.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=0, help="Search the settings of each model first, with so many trials.")
    ] = 0,
    summaries: SummariesOption = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one setting of all models; may be repeated."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time; by default one per core.")] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; by default one of this machine.")] = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> int:
    """Make tables and figures of the paper, and one page with them: OUT/index.html.

    Runs that were made before are found, not repeated; after an interruption the same command goes on.
    """
    from gfn4rec.experiments.extra import require_experiments

    require_experiments()
    from gfn4rec.experiments.campaign import Interrupted
    from gfn4rec.experiments.engines import open_engine
    from gfn4rec.experiments.lab import Lab
    from gfn4rec.experiments.protocol import read_protocol
    from gfn4rec.experiments.reproduce import needs_of, refuse_foreign_report, reproduce
    from gfn4rec.experiments.tuning import tune
    from gfn4rec.experiments.world import World

    if tuned is not None and trials:
        raise UserError("--tuned and --trials: settings are either known or searched; give one of them")
    needs = needs_of(names)
    protocol = read_protocol(budget, seeds, sensitivity_seeds, tuned, changes or ())
    protocol.check(needs)
    refuse_foreign_report(target)
    how = open_engine(engine, workers, address)
    choose_device(device, None)
    with working(f"opening {data}") as work:
        try:
            users = simulator
            if users is None and needs:
                users = _train_users(data, target / "simulator", device, work)
            lab = Lab(World(data, users), how, device, summaries)
            if trials:
                protocol = tune(protocol, needs, trials, lab, target / "search", search_progress(work))
            made = reproduce(names, protocol, lab, target, _watch(work))
        except (Interrupted, KeyboardInterrupt):
            tell("stopped; the same command goes on where it was")
            return INTERRUPTED
    if as_json:
        print_json({"page": str(made.page), "tables": sorted(made.tables)})
        return 0
    for each in made.tables.values():
        _print(each)
    out().print(f"Page: {made.page}")
    return 0


def _train_users(data: Path, target: Path, device: str, work: "Work") -> Path:
    from gfn4rec.experiments.users import trained_users

    def report(epoch: int, step: int, num_steps: int, loss: float) -> None:
        work.advance(f"simulated users, epoch {epoch + 1}, loss {loss:.4f}", step, num_steps)

    return trained_users(data, target, device, report)


def _watch(work: "Work") -> "Watch":
    """A moving line on a terminal, and a line per finished run anywhere."""

    def watch(progress: "Progress") -> None:
        count = f"{progress.num_done} of {progress.num_tasks} done{time_left(progress.seconds_left)}"
        work.advance(f"{count}: {'; '.join(progress.running)}", progress.num_done, progress.num_tasks)
        if not progress.num_done and not progress.running:
            tell(f"{progress.num_known} runs are known, {progress.num_tasks} are to be made")
        elif progress.ended is not None:
            tell(f"{count}; {progress.ended}")

    return watch


def _print(made: "Table") -> None:
    from gfn4rec.experiments.tables import judge, legend

    out().print(made.title, style="bold")
    shown = table("", *(column.heading for column in made.columns))
    for row, cells in judge(made):
        shown.add_row(row.label, *map(_styled, cells))
    out().print(shown)
    out().print(f"{made.caption} {legend(made)}\n")


def _styled(cell: "Cell") -> Text:
    style = " ".join(name for name, is_so in (("bold", cell.is_best), ("underline", cell.is_strongest)) if is_so)
    return Text.assemble((cell.figure, style), cell.mark, f" ({cell.paper})" if cell.paper else "")
