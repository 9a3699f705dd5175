"""A guess of how a log is to be read, tried on its first rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gfn4rec.data.describe import warnings_of
from gfn4rec.data.interactions import DEFAULT_RHO, SHOWN_COLUMNS, Interactions
from gfn4rec.data.manifest import BehaviourEntry
from gfn4rec.data.readers.own import LogColumns, build_interactions, log_kinds
from gfn4rec.data.readers.responses import BehaviourConfig
from gfn4rec.data.sample import Sample
from gfn4rec.data.tables import typed_table
from gfn4rec.errors import UserError


@dataclass(frozen=True)
class Guess:
    """How a log would be read: the names of columns by what they hold, and behaviours."""

    named: Mapping[str, str]
    behaviours: Mapping[str, BehaviourConfig]
    merge_events: bool

    def read(self, sample: Sample) -> Interactions:
        """Read the sample as the log is read; what is an error there is one here."""
        order = {} if "time" in self.named else {"order": "file"}
        columns = LogColumns.parse({**self.named, **order, "merge_events": self.merge_events}, sample.file.label)
        kinds = log_kinds(columns, self.behaviours)
        table = typed_table(sample.file, sample.table(kinds), kinds)
        raw = (sample.raw_file(),)
        return build_interactions(table, columns, self.behaviours, raw_files=raw, origin={}, rho=DEFAULT_RHO)


@dataclass(frozen=True)
class Trial:
    """What became of a guess: the rest of it, the log unless it cannot be read, and what is wrong."""

    guess: Guess
    log: Interactions | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def rate(self, behaviour: str) -> float | None:
        """Return the share of rows that show a behaviour."""
        return None if self.log is None else float(self.log.log[behaviour].mean())  # type: ignore[arg-type]


def try_guess(sample: Sample, guess: Guess) -> Trial:
    """Read the sample, and leave out what is wrong with it and not needed."""
    named = {name: column for name, column in guess.named.items() if name not in SHOWN_COLUMNS}
    rest, log, errors = replace(guess, named=named, behaviours={}), None, list[str]()
    for name, behaviour in guess.behaviours.items():
        more = replace(rest, behaviours={**rest.behaviours, name: behaviour})
        try:
            rest, log = more, more.read(sample)
        except UserError as error:
            errors.append(str(error))
    if log is None:
        return Trial(guess, None, tuple(dict.fromkeys(errors)), ())
    for name in SHOWN_COLUMNS:
        if name not in guess.named or (name == "position" and "slate" not in rest.named):
            continue
        more = replace(rest, named={**rest.named, name: guess.named[name]})
        try:
            rest, log = more, more.read(sample)
        except UserError as error:
            errors.append(str(error))
    rest, silent = _without_silent(rest, log)
    warnings = [*(f"{error}; the command leaves it out" for error in errors), *silent, *_say_little(rest, log)]
    return Trial(rest, log, (), tuple(warnings))


def _without_silent(guess: Guess, log: Interactions) -> tuple[Guess, list[str]]:
    """Leave out events that all items had, such as views, if there are others."""
    silent = [name for name in guess.behaviours if guess.merge_events and log.log[name].all()]
    if len(silent) == len(guess.behaviours):
        return guess, []
    others = {name: behaviour for name, behaviour in guess.behaviours.items() if name not in silent}
    reason = "after merging, it is true in every row and says nothing; the command leaves it out"
    return replace(guess, behaviours=others), [f"{name}: {reason}" for name in silent]


def _say_little(guess: Guess, log: Interactions) -> list[str]:
    """Return warnings of behaviours that are always or never true, or hardly ever."""
    rates = {name: float(log.log[name].mean()) for name in guess.behaviours}  # type: ignore[arg-type]
    if all(rate == 1 for rate in rates.values()):
        return [
            "the log has only positive responses: every row is something that the user chose; "
            "`gfn4rec train offline` with the default policy learns from it what users choose, and --negatives 3 adds "
            "sampled items for policies that also need items without a response"
        ]
    entries = [BehaviourEntry(name=name, weight=1.0, rate=rate) for name, rate in rates.items()]
    return warnings_of(entries, log.log.height, log.has_slates, is_filtered=False)
