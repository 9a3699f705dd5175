"""`gfn4rec data`: prepare, describe, show, list; inspect is in a file of its own."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from gfn4rec.cli.data_printing import print_example, print_summary
from gfn4rec.cli.inspect_log import inspect_command
from gfn4rec.cli.output import JsonOption, out, print_json, working
from gfn4rec.data.describe import Summary, summarise
from gfn4rec.data.manifest import FORMAT, PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.read import ReadOptions, default_test_slates, read_data
from gfn4rec.data.readers import SOURCES, SYNTHETIC
from gfn4rec.data.storage import read_manifest
from gfn4rec.data.synthetic import PRESETS
from gfn4rec.errors import UserError
from gfn4rec.storage import refuse_foreign

app = typer.Typer(
    help="Prepare a log of user responses for training, and inspect prepared data sets.", no_args_is_help=True
)

app.command("inspect", epilog="Example: gfn4rec data inspect log.csv")(inspect_command)

_OWN = "Your own log (or describe it in a TOML file)"
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A prepared data set.")]


def _checked_gap(seconds: float | None) -> float | None:
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise UserError(f"--session-gap {seconds:g}: write a number of seconds above 0")
    return seconds


@app.command("prepare", epilog="Example: gfn4rec data prepare ml-1m --raw ml-1m/ --out data/ml-1m --core 20")
def prepare_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_PATH",
            help="A name from `gfn4rec data list`, or the path of a log file, a TOML description, or RecBole files.",
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Directory to write the prepared data set to.", show_default="data/NAME"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a prepared data set in that directory.")] = False,
    raw: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder with the raw files of a named data set; without it, they are downloaded."
        ),
    ] = None,
    core: Annotated[
        int, typer.Option(min=1, metavar="N", help="Drop users and items with fewer than N rows; 1 keeps all.")
    ] = 20,
    slate_size: Annotated[int, typer.Option(min=1, metavar="N", help="Items per slate (K).")] = 6,
    test_slates: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Hold out the last N slates of each user for testing.",
            show_default="1; kuairand-1k and -27k 4, as in the paper",
        ),
    ] = None,
    val_slates: Annotated[
        int, typer.Option(min=0, metavar="N", help="Hold out the N slates before those for validation.")
    ] = 1,
    session_gap: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="A longer pause of a user begins a session; histories begin with their session.",
            callback=_checked_gap,
        ),
    ] = None,
    history: Annotated[
        Literal["all", "responded"],
        typer.Option(help="Rows that histories hold: all, or those with at least one response."),
    ] = "all",
    negatives: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="For logs of positive responses only: N of the K items are sampled from those the user has not met.",
        ),
    ] = 0,
    negatives_by: Annotated[
        Literal["uniform", "popularity"],
        typer.Option(help="Sample them with equal probabilities, or in proportion to their training records plus 1."),
    ] = "uniform",
    negatives_seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the sampled items.")] = 0,
    include_random: Annotated[
        bool, typer.Option("--include-random", help="KuaiRand only: add the log of randomly shown videos.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Synthetic data sets only: the random seed.", show_default="0")
    ] = None,
    user_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of user ids.", show_default="user", rich_help_panel=_OWN),
    ] = None,
    item_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of item ids.", show_default="item", rich_help_panel=_OWN),
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of times.", show_default="time", rich_help_panel=_OWN)
    ] = None,
    slate_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of slate ids: which items were shown together.", rich_help_panel=_OWN
        ),
    ] = None,
    position_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of an item's position in its slate.", rich_help_panel=_OWN),
    ] = None,
    propensity_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the probability with which an item was shown.", rich_help_panel=_OWN
        ),
    ] = None,
    session_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of session ids; histories begin with their session.", rich_help_panel=_OWN
        ),
    ] = None,
    merge_events: Annotated[
        bool,
        typer.Option(
            "--merge-events",
            help="One row is one event: merge rows with the same user, item and slate.",
            rich_help_panel=_OWN,
        ),
    ] = False,
    behaviour: Annotated[
        list[str] | None,
        typer.Option(
            metavar='"NAME=COLUMN>=X"',
            help=(
                'A kind of response, as in click=is_click (a column of 0 and 1), "like=rating>=4", '
                '"buy=event==purchase" or "buy=event in order, purchase"; repeatable.'
            ),
            rich_help_panel=_OWN,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=X",
            help="Weight of a behaviour in the reward, as in hate=-1; repeatable.",
            show_default="1",
            rich_help_panel=_OWN,
        ),
    ] = None,
    order: Annotated[
        Literal["time", "file"] | None,
        typer.Option(
            help="Sort rows by time, or keep the order of the file.", show_default="time", rich_help_panel=_OWN
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding of text files.", show_default="utf-8", rich_help_panel=_OWN),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help=r"Separator of columns in text files; \t is a tab.",
            show_default="the one that the first line has most of: comma, tab, ; or |",
            rich_help_panel=_OWN,
        ),
    ] = None,
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header",
            help="The file has no header line; its columns are named by number: 1, 2, ...",
            rich_help_panel=_OWN,
        ),
    ] = False,
    sheet: Annotated[
        str | None, typer.Option(metavar="NAME", help="Sheet of an Excel file with several.", rich_help_panel=_OWN)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn a raw log into a prepared data set: filter it, cut it into slates, split these into train, val and test."""
    options = ReadOptions(
        raw=raw,
        include_random=include_random,
        seed=seed,
        user_column=user_column,
        item_column=item_column,
        time_column=time_column,
        slate_column=slate_column,
        position_column=position_column,
        propensity_column=propensity_column,
        session_column=session_column,
        merge_events=merge_events,
        behaviour=tuple(behaviour or ()),
        weight=tuple(weight or ()),
        order=order,
        encoding=encoding,
        separator=separator,
        no_header=no_header,
        sheet=sheet,
    )
    config = PrepareConfig(
        core=core,
        slate_size=slate_size,
        test_slates=default_test_slates(what) if test_slates is None else test_slates,
        val_slates=val_slates,
        session_gap=session_gap,
        history=history,
        negatives=negatives,
        negatives_by=negatives_by,
        negatives_seed=negatives_seed,
    )
    name = what if what in SOURCES or what in SYNTHETIC else Path(Path(what).resolve().name.removesuffix(".gz")).stem
    target = target or Path("data") / name
    _refuse_taken(target, force)  # before the work starts
    with working(f"reading {what}") as work:
        interactions = read_data(what, options, work.downloaded)
        manifest = prepare(interactions, config, target, name, work.stage)
    _print_prepared(summarise(manifest), target, as_json)


def _print_prepared(summary: Summary, target: Path, as_json: bool) -> None:
    if as_json:
        print_json(summary.model_dump(mode="json") | {"out": str(target)})
        return
    print_summary(out(), summary)
    out().print(f"\nWritten to {target}. Show some of it: gfn4rec data show {target}")


def _refuse_taken(target: Path, force: bool) -> None:
    refuse_foreign(target, FORMAT)
    if not force and target.is_dir() and any(target.iterdir()):
        raise UserError(f"{target}: holds a prepared data set; replace it with --force, or choose another --out")


@app.command("describe", epilog="Example: gfn4rec data describe data/ml-1m")
def describe_command(directory: Directory, as_json: JsonOption = False) -> None:
    """Print statistics of a prepared data set: its size, what was filtered out, slates, behaviours and features."""
    with working(f"checking {directory}"):
        summary = summarise(read_manifest(directory))
    if as_json:
        print_json(summary.model_dump(mode="json"))
    else:
        print_summary(out(), summary)


@app.command("show", epilog="Example: gfn4rec data show data/ml-1m --count 3 --split test")
def show_command(
    directory: Directory,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of slates.")] = 3,
    split: Annotated[Literal["train", "val", "test"], typer.Option(help="Split to draw them from.")] = "test",
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the draw.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Print a few random slates of the log, each with the user's history before it and the responses to it."""
    from gfn4rec.data.dataset import SlateData  # these import torch, which the other commands do without
    from gfn4rec.data.examples import examples

    with working(f"opening {directory}"):
        drawn = examples(SlateData.open(directory), split, count, seed)
    if as_json:
        print_json({"examples": [asdict(example) for example in drawn]})
        return
    for example in drawn:
        print_example(out(), example)


@app.command("list", epilog="Example: gfn4rec data list")
def list_command(as_json: JsonOption = False) -> None:
    """List the data sets that can be prepared by name, with their download addresses and raw files."""
    synthetic = {
        name: f"embedded: {PRESETS[preset].num_rows:,} rows, {PRESETS[preset].num_items:,} items, "
        f"{PRESETS[preset].num_users:,} users, with known response probabilities"
        for name, preset in SYNTHETIC.items()
    }
    if as_json:
        published = {
            name: {"summary": source.summary, "url": source.archive.url, "raw": source.layout}
            for name, source in SOURCES.items()
        }
        print_json(published | {name: {"summary": text} for name, text in synthetic.items()})
        return
    console = out()
    for name, source in SOURCES.items():
        console.print(name, style="bold", end="")
        console.print(f": {source.summary}\n    {source.archive.url}\n    --raw: {source.layout}")
    for name, text in synthetic.items():
        console.print(name, style="bold", end="")
        console.print(f": {text}")
