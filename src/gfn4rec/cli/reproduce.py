"""`gfn4rec reproduce`: the paper's tables and figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gfn4rec.cli.compute import DeviceOption, choose_device
from gfn4rec.cli.output import INTERRUPTED, JsonOption, out, print_json, table, tell, working
from gfn4rec.cli.search import SummariesOption, search_progress
from gfn4rec.errors import UserError
from gfn4rec.progress import Reporter, time_left

if TYPE_CHECKING:
    from gfn4rec.experiments.jobs.campaign import Progress, ReportCampaign
    from gfn4rec.experiments.report.tables import Cell, Table


def reproduce_command(
    names: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Names from the lists above.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="A prepared data set.")],
    target: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for runs, tables, plots and the page.")
    ],
    simulator: Annotated[
        Path | None,
        typer.Option(
            "--simulator", metavar="SIM", help="A simulator of its users; without it, one is trained in OUT/simulator."
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(help="Length of online runs: quick (200 steps), short (1,000) or paper (5,000, as in the paper)."),
    ] = "quick",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each model; default: the budget's 1, 3 or 5.")
    ] = None,
    sensitivity_seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Seeds of each value of b_f, b_r, b_z and of each study; default: the budget's 1, 1 or 3."
        ),
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings to train with: the tuned.toml of `gfn4rec search`.")
    ] = None,
    trials: Annotated[
        int, typer.Option(min=0, help="Search for settings first, with at most N trials per model; 0 does not search.")
    ] = 0,
    summaries: SummariesOption = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of all models that have it; repeatable."),
    ] = None,
    engine: Annotated[str, typer.Option(help="Where to run: local (processes of this machine) or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at the same time; by default one per core.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster; by default one is started on this machine.")
    ] = None,
    device: DeviceOption = "cpu",
    as_json: JsonOption = False,
) -> int:
    """Train the models of the paper's tables and figures, and write these to one page: OUT/index.html.

    Runs that exist in OUT are used again. After an interruption, the same command resumes.

    \b
    Tables and figures of the paper (`all` for all of these):
      data         the data set (Table 1)
      online       models trained online (Table 2)
      offline      models trained on the log, evaluated in the simulator (Table 3)
      ranking      ranking metrics of the offline models (Table 4)
      balance      trajectory against detailed balance (Table 5)
      curves       learning curves (Figure 4)
      b_f b_r b_z  sensitivity to a setting of GFN4Rec (Tables 6 and 7, section A.2)
      time         running time (section A.3)
      transfer     trained offline against trained online (section 4.3.4)
      feasibility  whether metrics on the log predict those in the simulator (section 4.3.3)
      claims       which of the paper's claims hold here

    \b
    This project's own studies (`studies` for all of these):
      objectives    the energy GFN against the paper's objectives
      frontier      all models at equal coverage, with the same batch size and schedule
      ablations     the energy GFN without one of its ideas
      alternatives  the energy GFN with one design decision changed
      rates         the energy GFN with other learning rates
      authors       Table 2 with the settings of the authors' scripts
    """
    from gfn4rec.experiments import require_experiments

    require_experiments()
    from gfn4rec.experiments.benchmark import Benchmark
    from gfn4rec.experiments.jobs.campaign import Interrupted, Lab
    from gfn4rec.experiments.jobs.engines import open_engine
    from gfn4rec.experiments.paper.protocol import read_protocol
    from gfn4rec.experiments.paper.reproduce import refuse_foreign_report, reproduce
    from gfn4rec.experiments.paper.reproductions import needs_of
    from gfn4rec.experiments.paper.tuning import tune

    if tuned is not None and trials:
        raise UserError("--tuned and --trials exclude each other: settings are either given or searched")
    needs = needs_of(names)
    protocol = read_protocol(budget, seeds, sensitivity_seeds, tuned, changes or ())
    protocol.check(needs)
    refuse_foreign_report(target)
    opened_engine = open_engine(engine, workers, address)
    choose_device(device, None)
    with working(f"opening {data}") as work:
        try:
            users = simulator
            if users is None and needs:
                users = _train_users(data, target / "simulator", device, work)
            lab = Lab(Benchmark(data, users), opened_engine, device, summaries)
            if trials:
                protocol = tune(protocol, needs, trials, lab, target / "search", search_progress(work))
            report = reproduce(names, protocol, lab, target, _watch(work))
        except (Interrupted, KeyboardInterrupt):
            tell("stopped; the same command resumes")
            return INTERRUPTED
    if as_json:
        print_json({"page": str(report.page), "tables": sorted(report.tables)})
        return 0
    for content in report.tables.values():
        _print(content)
    out().print(f"Page: {report.page}")
    return 0


def _train_users(data: Path, target: Path, device: str, work: Reporter) -> Path:
    from gfn4rec.experiments.benchmark import train_simulator_if_absent

    def report(epoch: int, step: int, num_steps: int, loss: float) -> None:
        work.advance(f"training the simulator, epoch {epoch + 1}", step, num_steps, f"loss {loss:.4f}")

    return train_simulator_if_absent(data, target, device, report)


def _watch(work: Reporter) -> "ReportCampaign":
    """Return a callback that reports the runs at work, and prints a line for each finished run."""

    def watch(progress: "Progress") -> None:
        count = f"{progress.num_done} of {progress.num_tasks} done{time_left(progress.seconds_left)}"
        if not progress.num_done and not progress.running:
            tell(f"{progress.num_known} runs exist, {progress.num_tasks} are to be made")
        elif progress.ended is not None:
            tell(f"{count}; {progress.ended}")
        else:
            work.show(f"{count}: {'; '.join(progress.running)}", progress.num_done, progress.num_tasks)

    return watch


def _print(content: "Table") -> None:
    from gfn4rec.experiments.report.tables import legend, mark_cells

    out().print(content.title, style="bold")
    shown = table("", *(column.heading for column in content.columns))
    for row, cells in mark_cells(content):
        shown.add_row(row.label, *map(_styled, cells))
        if any(cell.paper for cell in cells):
            shown.add_row(f"{row.label}, paper", *(cell.paper for cell in cells))
    out().print(shown)
    out().print(f"{content.caption} {legend(content)}\n")


def _styled(cell: "Cell") -> Text:
    styles = {"bold": cell.is_best, "underline": cell.is_strongest}
    return Text.assemble((cell.ours, " ".join(style for style, is_set in styles.items() if is_set)), cell.mark)
