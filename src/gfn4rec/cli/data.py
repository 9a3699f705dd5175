"""`gfn4rec data`: prepare, describe, show, list."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from gfn4rec.cli.output import JsonOption, out, print_json, table, working
from gfn4rec.data.describe import summarise
from gfn4rec.data.manifest import FORMAT, PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.read import ReadOptions, default_test_slates, read_data
from gfn4rec.data.readers import SOURCES, SYNTHETIC
from gfn4rec.data.storage import read_manifest
from gfn4rec.data.synthetic import PRESETS
from gfn4rec.storage import refuse_foreign

app = typer.Typer(help="From raw logs to requests and slates.", no_args_is_help=True)

_OWN = "Own data (or use a TOML file)"
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A prepared data set.")]


@app.command("prepare", epilog="Example: gfn4rec data prepare ml-1m --raw ml-1m/ --out data/ml-1m --core 20")
def prepare_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_PATH",
            help="A data set of `gfn4rec data list`, a log file of yours, a TOML description of it, or RecBole files.",
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the prepared data set goes (data/NAME)."),
    ] = None,
    raw: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder with the raw files; without it they are fetched."),
    ] = None,
    core: Annotated[int, typer.Option(min=1, help="Rows that each user and each item must have; 1 keeps all.")] = 20,
    slate_size: Annotated[int, typer.Option(min=1, help="Items in a slate, K.")] = 6,
    test_slates: Annotated[
        int | None,
        typer.Option(min=0, help="Last slates of each user held out for test; by default as in the paper."),
    ] = None,
    val_slates: Annotated[int, typer.Option(min=0, help="Slates before those held out for validation.")] = 1,
    include_random: Annotated[
        bool, typer.Option("--include-random", help="KuaiRand: add the log of random exposure.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Synthetic sets: the seed (0).")] = None,
    user_column: Annotated[str | None, typer.Option(help="Column of the user (user).", rich_help_panel=_OWN)] = None,
    item_column: Annotated[str | None, typer.Option(help="Column of the item (item).", rich_help_panel=_OWN)] = None,
    time_column: Annotated[str | None, typer.Option(help="Column of the time (time).", rich_help_panel=_OWN)] = None,
    behaviour: Annotated[
        list[str] | None,
        typer.Option(
            metavar='"NAME=COLUMN>=X"',
            help='A response: click=is_click or "like=rating>=4". Repeat it.',
            rich_help_panel=_OWN,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=X", help="A behaviour's weight in the reward (1).", rich_help_panel=_OWN),
    ] = None,
    order: Annotated[
        Literal["time", "file"] | None,
        typer.Option(help="file: there are no times, rows are in order as they stand.", rich_help_panel=_OWN),
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of text files (utf-8).", rich_help_panel=_OWN)] = None,
    separator: Annotated[
        str | None, typer.Option(help=r"Between columns of text files (,); \t is a tab.", rich_help_panel=_OWN)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn raw logs into a prepared data set: filtered, ordered, cut into slates and split."""
    options = ReadOptions(
        raw=raw,
        include_random=include_random,
        seed=seed,
        user_column=user_column,
        item_column=item_column,
        time_column=time_column,
        behaviour=tuple(behaviour or ()),
        weight=tuple(weight or ()),
        order=order,
        encoding=encoding,
        separator=separator,
    )
    config = PrepareConfig(
        core=core,
        slate_size=slate_size,
        test_slates=default_test_slates(what) if test_slates is None else test_slates,
        val_slates=val_slates,
    )
    name = what if what in SOURCES or what in SYNTHETIC else Path(what).resolve().stem
    target = target or Path("data") / name
    refuse_foreign(target, FORMAT)  # before the work, not after it
    with working(f"reading {what}") as work:
        interactions = read_data(what, options, work.downloaded)
        manifest = prepare(interactions, config, target, name, work.stage)
    if as_json:
        print_json(summarise(manifest) | {"out": str(target)})
        return
    _print_summary(out(), summarise(manifest))
    out().print(f"\nWritten to {target}. Look at it: gfn4rec data show {target}")


@app.command("describe", epilog="Example: gfn4rec data describe data/ml-1m")
def describe_command(directory: Directory, as_json: JsonOption = False) -> None:
    """Statistics of a prepared data set: the paper's table, and all that was done on the way."""
    with working(f"checking {directory}"):
        summary = summarise(read_manifest(directory))
    if as_json:
        print_json(summary)
    else:
        _print_summary(out(), summary)


@app.command("show", epilog="Example: gfn4rec data show data/ml-1m --count 3 --split test")
def show_command(
    directory: Directory,
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    split: Annotated[Literal["train", "val", "test"], typer.Option(help="Drawn from this split.")] = "test",
    seed: Annotated[int, typer.Option(help="Another seed shows others.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """A few requests with the slates that answered them."""
    from gfn4rec.data.dataset import SlateData  # these bring torch, which the other commands start without
    from gfn4rec.data.examples import examples

    with working(f"opening {directory}"):
        found = examples(SlateData.open(directory), split, count, seed)
    if as_json:
        print_json({"examples": found})
        return
    for example in found:
        _print_example(out(), example)


@app.command("list", epilog="Example: gfn4rec data list")
def list_command(as_json: JsonOption = False) -> None:
    """The data sets known by name."""
    synthetic = {
        name: f"embedded: {PRESETS[preset].num_rows:,} rows, {PRESETS[preset].num_items:,} items, "
        f"{PRESETS[preset].num_users:,} users, with known truth"
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


def _print_summary(console: Console, summary: dict[str, Any]) -> None:
    low, high = summary["reward_range"]
    paper = table("data set", "users |U|", "items |I|", "records", "behaviours |B|", "reward R")
    counts = [f"{summary[key]:,}" for key in ("users", "items", "records")]
    paper.add_row(summary["name"], *counts, str(len(summary["behaviours"])), f"[{low:g}, {high:g}]")
    console.print(paper)
    for title, rows in _summary_sections(summary).items():
        if not rows:
            continue
        console.print(f"\n{title}", style="bold")
        section = table("", "")
        section.columns[1].justify = "left" if any(isinstance(value, str) for value in rows.values()) else "right"
        for name, value in rows.items():
            section.add_row(name, value if isinstance(value, str) else f"{value:,}")
        console.print(section)


def _summary_sections(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    counts, settings, removed = summary["statistics"], summary["settings"], summary["removed_by_filter"]
    return {
        f"What the {settings['core']}-core filter removed": removed,
        "Log": {
            "duplicate records dropped": counts["duplicate_records"],
            "of which with other responses": counts["conflicting_duplicates"],
            "rows": counts["rows"],
            "longest log of a user": counts["longest_log"],
        },
        f"Slates of {settings['slate_size']}": {
            "train": counts["train_slates"],
            "val": counts["val_slates"],
            "test": counts["test_slates"],
            "rows in slates": counts["rows_in_slates"],
            "rows skipped, item already in the slate": counts["rows_skipped"],
            "rows before the first whole slate": counts["rows_leading"],
            "users without a slate": counts["users_without_slate"],
            "users with fewer test slates than asked": counts["users_short_of_test"],
            "of which with none": counts["users_without_test"],
            "users with fewer val slates than asked": counts["users_short_of_val"],
            "of which with no val slate": counts["users_without_val"],
        },
        "Behaviours": {
            name: f"weight {each['weight']:g}, {each['rate']:.4%} of rows"
            for name, each in summary["behaviours"].items()
        },
        "Features": {
            f"{side[:-1]} {name}": f"{feature['kind']}, "
            + (f"{feature['values']:,} values, " if feature["values"] else "")
            + f"{feature['unknown']:,} unknown"
            for side, features in summary["features"].items()
            for name, feature in features.items()
        },
    }


def _print_example(console: Console, example: dict[str, Any]) -> None:
    profile = ", ".join(f"{name} {_value(value)}" for name, value in example["profile"].items())
    history, latest = example["history"], example["history"][-3:]
    console.print(f"\nUser {example['user']}", style="bold", end="")
    console.print(f" ({profile})" if profile else "")
    console.print(f"  history of {len(history)} events" + (f", the latest {len(latest)}:" if latest else ""))
    for event in latest:
        console.print(f"    {event['title'] or event['item']}: {', '.join(event['responses']) or 'no response'}")
    console.print(f"  slate with reward {example['reward']:.3f}:")
    shown = table("    item", "reward", "responses")
    for event, reward in zip(example["slate"], example["item_rewards"], strict=True):
        title = str(event["title"] or event["item"])
        shown.add_row(f"    {title}", f"{reward:g}", ", ".join(event["responses"]) or "-")
    console.print(shown)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "unknown"
    return "unknown" if value is None else str(value)
