"""What a log file holds, how `data prepare` would read it, and what will go wrong; from its first rows."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from gfn4rec.config import StrictConfig
from gfn4rec.data.interactions import SHOWN_COLUMNS
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.profiles import Column, ColumnType
from gfn4rec.data.readers import SOURCES, SYNTHETIC
from gfn4rec.data.readers.layout import FileLayout
from gfn4rec.data.response_guess import guess_behaviours, response_text
from gfn4rec.data.roles import Role, guess_roles
from gfn4rec.data.sample import MOST_ROWS, Sample, read_sample
from gfn4rec.data.sizes import Sizes, suggest_sizes
from gfn4rec.data.table_file import Format
from gfn4rec.data.trial import Guess, Trial, try_guess

_PLACEHOLDER = "COLUMN"  # in the command, for what could not be guessed
_RECBOLE = {"user": "user_id", "item": "item_id", "time": "timestamp"}


class ColumnPreview(StrictConfig):
    """A column of the file."""

    name: str
    type: ColumnType
    distinct: int
    share_empty: float
    examples: tuple[str, ...]
    role: Role


class BehaviourPreview(StrictConfig):
    """A guessed behaviour."""

    name: str
    response: str  # as in --behaviour
    weight: float
    rate: float | None  # the share of rows that show it, if the rows could be read


class Inspection(StrictConfig):
    """What the first rows of a log file say."""

    file: str
    format: Format
    separator: str | None
    encoding: str | None
    has_header: bool
    sheet: str | None
    num_rows: int
    is_whole: bool  # the file has no more rows
    columns: tuple[ColumnPreview, ...]
    behaviours: tuple[BehaviourPreview, ...]
    sizes: Sizes | None
    missing: tuple[str, ...]  # what was not recognised
    problems: tuple[str, ...]  # what will make `data prepare` fail
    warnings: tuple[str, ...]
    command: str


def inspect_log(path: Path, layout: FileLayout | None = None, most_rows: int = MOST_ROWS) -> Inspection:
    """Read the first rows of a log file, guess what its columns are for, and try what `data prepare` would do."""
    layout = layout or FileLayout()
    sample = read_sample(path, layout, most_rows)
    columns = [Column.of(series) for series in sample.columns]
    roles = guess_roles(columns, sample.has_names)
    guess = _guess(sample, columns, roles)
    missing = list(_missing(columns, roles, guess, sample))
    trial = Trial(guess, None, (), ()) if missing else try_guess(sample, guess)
    sizes = None if trial.log is None else suggest_sizes(trial.log)
    warnings = [*_warnings(layout, sample, columns, roles), *_unused(columns, roles, guess), *trial.warnings]
    warnings += sizes.warnings(sample.is_whole) if sizes else []
    file = sample.file
    return Inspection(
        file=str(path),
        format=file.format,
        separator=file.separator if file.format == "text" else None,
        encoding=file.encoding if file.format in ("text", "jsonl") else None,
        has_header=sample.has_names,
        sheet=file.sheet,
        num_rows=sample.num_rows,
        is_whole=sample.is_whole,
        columns=tuple(_preview(column, role) for column, role in zip(columns, roles, strict=True)),
        behaviours=tuple(
            BehaviourPreview(name=name, response=response_text(it), weight=it.weight, rate=trial.rate(name))
            for name, it in trial.guess.behaviours.items()
        ),
        sizes=sizes,
        missing=tuple(missing),
        problems=(*filter(None, (sample.broken_line,)), *trial.problems),
        warnings=tuple(warnings),
        command=shlex.join(_command(path, layout, sample, trial.guess, sizes)),
    )


def _guess(sample: Sample, columns: Sequence[Column], roles: Sequence[Role]) -> Guess:
    holders = {role: column.name for column, role in zip(columns, roles, strict=True)}
    behaviours = guess_behaviours(columns, roles)
    if sample.is_recbole:  # whose names are fixed, and which has no slates
        names = {column.name for column in columns}
        return Guess({role: name for role, name in _RECBOLE.items() if name in names}, behaviours, merge_events=False)
    wanted: tuple[Role, ...] = ("user", "item", "time", "slate", "position", "propensity")
    named = {str(name): holders[name] for name in wanted if name in holders}
    if "slate" not in named:
        named.pop("position", None)
    return Guess(named, behaviours, "event type" in holders)


def _missing(columns: Sequence[Column], roles: Sequence[Role], guess: Guess, sample: Sample) -> Iterator[str]:
    """Yield what is needed and was not recognised, and the option that names it."""
    role_of = dict(zip((column.name for column in columns), roles, strict=False))
    for name in ("user", "item"):
        if name not in guess.named and sample.is_recbole:
            yield f"there is no column {_RECBOLE[name]}:token, which a RecBole file needs"
        elif name not in guess.named:
            session = next((column for column, role in role_of.items() if role == "session" and name == "user"), None)
            hint = f", as in --user-column {session} if a session stands for a user" if session else ""
            yield f"no column of {name} ids was recognised; name it with --{name}-column{hint}"
    if not guess.behaviours:
        free = [column for column in columns if column.is_number and role_of[column.name] in ("", "feature")]
        free.sort(key=lambda column: (role_of[column.name], column.type != "number"))
        numbers = [column.name for column in free if column.name]
        hint = f"{numbers[0]}>=X" if numbers else f"{_PLACEHOLDER}>=X"
        yield (
            f'no column of responses was recognised; say what counts as one, as in --behaviour "like={hint}"; if every '
            "row is something that the user chose, add a column that is 1 in every row and name it with --behaviour"
        )


def _warnings(layout: FileLayout, sample: Sample, columns: Sequence[Column], roles: Sequence[Role]) -> Iterator[str]:
    """Yield what was only guessed, and what is not used."""
    names = [column.name for column in columns]
    if sample.file.encoding == "latin-1" and "encoding" not in layout.model_fields_set:
        yield "the text is not UTF-8; latin-1 is likely, but if the examples do not read well, name another --encoding"
    if not sample.has_names:
        yield "there is no header line, so columns are named by number and were guessed by their values: check them"
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"{names.count(name)} columns are called {name!r}, so none of them can be used; rename one"
    if "time" not in roles:
        yield "no column of times was recognised, so rows are in the order of the file; name it with --time-column"
    for column, role in zip(columns, roles, strict=True):
        if column.type == "nested" and column.values.dtype != pl.List:
            yield f"{column.name!r} holds objects; give each of their values that you need a column of its own"
        if column.type == "ambiguous date" and role == "time":
            yield f"{column.examples[0]!r} in {column.name!r} may begin with the day or the month; write 2024-01-31"
        if role == "session" and "user" in roles and not column.share_empty:
            yield f"{column.name!r} is not used; if it says which items were shown together, it is a --slate-column"
        if role == "position" and "slate" not in roles:
            yield f"{column.name!r} is not used, because positions belong to slates; name these with --slate-column"


def _unused(columns: Sequence[Column], roles: Sequence[Role], guess: Guess) -> Iterator[str]:
    """Yield the columns of responses that no option can name."""
    used = {behaviour.column for behaviour in guess.behaviours.values()}
    for column, role in zip(columns, roles, strict=True):
        if role in ("response", "rating", "event type") and column.name not in used:
            yield f"{column.name!r} cannot be named in --behaviour; rename the column to use it"


def _preview(column: Column, role: Role) -> ColumnPreview:
    return ColumnPreview(
        name=column.name,
        type=column.type,
        distinct=len(column.distinct),
        share_empty=column.share_empty,
        examples=column.examples,
        role=role,
    )


def _command(path: Path, layout: FileLayout, sample: Sample, guess: Guess, sizes: Sizes | None) -> Iterator[str]:
    """Yield the words of the command that prepares the log."""
    what = str(path)
    yield from ("gfn4rec", "data", "prepare", f"./{what}" if what in (*SOURCES, *SYNTHETIC) or what[0] == "-" else what)
    if not sample.is_recbole:
        yield from _layout_options(layout, sample)
        for name in ("user", "item", "time", *SHOWN_COLUMNS):
            column = guess.named.get(name, _PLACEHOLDER if name in ("user", "item") else name)
            if column != name or (name in SHOWN_COLUMNS and name in guess.named):
                yield from (f"--{name}-column", column)
    if "time" not in guess.named:
        yield from ("--order", "file")
    for name, behaviour in guess.behaviours.items():
        response = response_text(behaviour)
        yield from ("--behaviour", name if response == name else f"{name}={response}")
    if not guess.behaviours:
        yield from ("--behaviour", f"NAME={_PLACEHOLDER}")
    for name, behaviour in guess.behaviours.items():
        if behaviour.weight != 1:
            yield from ("--weight", f"{name}={behaviour.weight:g}")
    if guess.merge_events:
        yield "--merge-events"
    default = PrepareConfig()
    if sizes is not None and sizes.core != default.core:
        yield from ("--core", str(sizes.core))
    if sizes is not None and sizes.slate_size != default.slate_size:
        yield from ("--slate-size", str(sizes.slate_size))


def _layout_options(layout: FileLayout, sample: Sample) -> Iterator[str]:
    """Yield the options that say how the file is read, as far as `data prepare` would not see it."""
    if sample.layout.separator is not None:
        yield from ("--separator", sample.layout.separator.replace("\t", "\\t"))
    if sample.file.encoding != "utf-8":
        yield from ("--encoding", sample.file.encoding)
    if not sample.has_names:
        yield "--no-header"
    if layout.sheet is not None:
        yield from ("--sheet", layout.sheet)
