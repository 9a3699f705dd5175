"""The common entry to all readers: the name of a data set or a path -> Interactions."""

import math
from dataclasses import dataclass, fields
from pathlib import Path

from gfn4rec.data.download import Progress, fetch
from gfn4rec.data.interactions import Interactions
from gfn4rec.data.readers import SOURCES, SYNTHETIC, find_source, read_published, read_synthetic
from gfn4rec.data.readers.own import OwnData, read_own
from gfn4rec.data.readers.recbole import read_recbole
from gfn4rec.data.readers.responses import BehaviourConfig, parse_behaviour
from gfn4rec.errors import UserError


@dataclass(frozen=True)
class ReadOptions:
    """The options of `gfn4rec data prepare` that describe the raw data; None and empty mean not given."""

    raw: Path | None = None
    include_random: bool = False
    seed: int | None = None
    user_column: str | None = None
    item_column: str | None = None
    time_column: str | None = None
    slate_column: str | None = None
    position_column: str | None = None
    propensity_column: str | None = None
    session_column: str | None = None
    merge_events: bool = False
    behaviour: tuple[str, ...] = ()
    weight: tuple[str, ...] = ()
    order: str | None = None
    encoding: str | None = None
    separator: str | None = None
    no_header: bool = False
    sheet: str | None = None


_NO_OPTIONS = ReadOptions()


def read_data(what: str, options: ReadOptions = _NO_OPTIONS, progress: Progress = lambda *_: None) -> Interactions:
    """Read a synthetic or published data set, a TOML description, RecBole files, or a log file with options.

    >>> read_data("synthetic-tiny").log.columns
    ['user', 'item', 'time', 'click', 'like', 'share', 'hate']
    """
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
    """Return how many test slates per user the paper uses for this data set."""
    return SOURCES[what].test_slates if what in SOURCES else 1


def _described(path: Path, options: ReadOptions) -> OwnData:
    """Return the description that the options give of a log file."""
    if not options.behaviour:
        raise UserError(f'{path}: say what counts as a response, as in --behaviour click=is_click or "like=rating>=4"')
    if options.order == "file" and options.time_column is not None:
        raise UserError("--time-column has no meaning with --order file; leave one of them out")
    log = {
        "files": [path.name],
        "user": options.user_column,
        "item": options.item_column,
        "time": options.time_column,
        "order": options.order,
        "slate": options.slate_column,
        "position": options.position_column,
        "propensity": options.propensity_column,
        "session": options.session_column,
        "merge_events": options.merge_events or None,
        "separator": options.separator,
        "encoding": options.encoding,
        "has_header": False if options.no_header else None,
        "sheet": options.sheet,
    }
    given = {key: value for key, value in log.items() if value is not None}
    return OwnData.parse({"log": given, "behaviours": _behaviours(options)}, str(path))


def _behaviours(options: ReadOptions) -> dict[str, BehaviourConfig]:
    """Parse the behaviours of --behaviour, with the weights of --weight."""
    behaviours: dict[str, BehaviourConfig] = {}
    for text in options.behaviour:
        name, behaviour = parse_behaviour(text)
        if name in behaviours:
            raise UserError(f"--behaviour {text}: {name!r} is described twice")
        behaviours[name] = behaviour
    weighted: set[str] = set()
    for text in options.weight:
        name, _, number = (part.strip() for part in text.partition("="))
        if name not in behaviours:
            raise UserError(f"--weight {text}: there is no --behaviour {name!r}")
        if name in weighted:
            raise UserError(f"--weight {text}: {name!r} has a weight already")
        weighted.add(name)
        behaviours[name] = behaviours[name].model_copy(update={"weight": _parse_weight(text, number)})
    return behaviours


def _parse_weight(text: str, number: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise UserError(f"--weight {text}: write NAME=NUMBER, with a finite number")
    return weight


def _refuse_others(options: ReadOptions, allowed: set[str], what: str) -> None:
    """Raise an error for an option that would be ignored."""
    for field in fields(options):
        if field.name not in allowed and getattr(options, field.name) != field.default:
            raise UserError(f"--{field.name.replace('_', '-')} has no meaning for {what}; leave it out")
