"""One way in: a data set's name, or a path of one's own, becomes Interactions."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gfn4rec.data.download import Progress, fetch
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.readers import SOURCES, SYNTHETIC, find_source, read_published, read_synthetic
from gfn4rec.data.readers.own import OwnData, parse_behaviour, read_own
from gfn4rec.data.readers.recbole import read_recbole
from gfn4rec.errors import UserError


@dataclass(frozen=True)
class ReadOptions:
    """What may be said about the raw data; None and empty mean: not said."""

    raw: Path | None = None
    include_random: bool = False
    seed: int | None = None
    user_column: str | None = None
    item_column: str | None = None
    time_column: str | None = None
    behaviour: tuple[str, ...] = ()
    weight: tuple[str, ...] = ()
    order: str | None = None
    encoding: str | None = None
    separator: str | None = None


def read_data(what: str, options: ReadOptions, progress: Progress = lambda *_: None) -> Interactions:
    """Read a synthetic set, a published set, a TOML description, RecBole files, or a log file described by options."""
    path = Path(what)
    if what in SYNTHETIC:
        _refuse_others(options, {"seed"}, what)
        return read_synthetic(what, options.seed or 0)
    if what in SOURCES or not path.exists():
        if what not in SOURCES and (path.suffix or len(path.parts) > 1):
            raise UserError(f"{what}: no such file")
        source = find_source(what)
        _refuse_others(options, {"raw", "include_random"}, what)
        raw = options.raw or fetch(what, source.archive, source.layout, progress)
        return read_published(what, raw, options.include_random)
    if path.suffix.lower() == ".toml":
        _refuse_others(options, set(), what)
        return read_own(OwnData.load(path), path.parent)
    if path.suffix.lower() == ".inter" or path.is_dir():
        _refuse_others(options, {"behaviour", "weight", "order"}, what)
        return read_recbole(path, _behaviours(options), order=options.order or "time")
    _refuse_others(options, {field.name for field in fields(options)} - {"raw", "include_random", "seed"}, what)
    return read_own(_described(path, options), path.parent)


def default_test_slates(what: str) -> int:
    """How many slates of each user the paper holds out for this data set."""
    return SOURCES[what].test_slates if what in SOURCES else 1


def default_rho(name: str) -> float:
    """The strength of item influence that the paper gives this data set."""
    return SOURCES[name].rho if name in SOURCES else 0.2


def _described(path: Path, options: ReadOptions) -> OwnData:
    """The description that flags give of a log file."""
    log = {
        "files": [path.name],
        "user": options.user_column,
        "item": options.item_column,
        "time": options.time_column,
        "order": options.order,
        "separator": options.separator,
        "encoding": options.encoding,
    }
    if not options.behaviour:
        raise UserError(f'{path}: say what counts as a response, as in --behaviour click=is_click or "like=rating>=4"')
    if options.order == "file" and options.time_column is not None:
        raise UserError("--time-column means nothing with --order file; leave one of them out")
    values = {
        "log": {key: value for key, value in log.items() if value is not None},
        "behaviours": _behaviours(options),
    }
    return OwnData.parse(values, str(path))


def _behaviours(options: ReadOptions) -> dict[str, dict[str, Any]]:
    """The behaviours of --behaviour, with the weights of --weight."""
    behaviours: dict[str, dict[str, Any]] = {}
    for text in options.behaviour:
        name, values = parse_behaviour(text)
        if name in behaviours:
            raise UserError(f"--behaviour {text}: {name!r} is described twice")
        behaviours[name] = values
    for text in options.weight:
        name, _, number = (part.strip() for part in text.partition("="))
        if name not in behaviours:
            raise UserError(f"--weight {text}: there is no --behaviour {name!r}")
        if "weight" in behaviours[name]:
            raise UserError(f"--weight {text}: {name!r} has a weight already")
        try:
            behaviours[name]["weight"] = float(number)
        except ValueError:
            raise UserError(f"--weight {text}: write NAME=NUMBER") from None
    return behaviours


def _refuse_others(options: ReadOptions, allowed: set[str], what: str) -> None:
    """An option that would be ignored is a mistake."""
    for field in fields(options):
        if field.name not in allowed and getattr(options, field.name) != field.default:
            raise UserError(f"--{field.name.replace('_', '-')} means nothing for {what}; leave it out")
