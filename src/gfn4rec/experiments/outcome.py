"""The outcome of a job: a small JSON file that tables and plots are made of."""

import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from gfn4rec.config import StrictConfig
from gfn4rec.errors import UserError
from gfn4rec.experiments.job import Job
from gfn4rec.storage import make_directory, write_whole

GREEDY = "greedy"
Figures = dict[str, float]


class CurvePoint(StrictConfig):
    """A look at the policy on the way."""

    step: int
    greedy: Figures
    sampled: Figures


class Example(StrictConfig):
    """A slate that was shown to a user of the data set."""

    user: str
    way: str
    titles: tuple[str, ...]


class Outcome(StrictConfig):
    """What a finished job has measured."""

    key: str
    job: Job
    data: str
    simulator: str
    step: int
    """The last one; fewer than asked for where learning stopped by itself."""
    seconds: float
    """Of showing and learning, without measuring."""
    figures: dict[str, Figures]
    """In the simulator, by how slates were chosen: greedy, T=1, ...; `_unsorted` ones are of the authors' rule."""
    last_steps: Figures | None = None
    """Means of the last steps of online learning, as the paper reports them."""
    test: Figures | None = None
    """Ranking of logged slates the policy has not learned from."""
    curve: tuple[CurvePoint, ...] = ()
    examples: tuple[Example, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    git_hash: str | None = None


class OutcomeStore:
    """Outcomes by key: each beside its run and, for other machines, in a directory of summaries."""

    def __init__(self, runs: Path, summaries: Path | None = None) -> None:
        self.runs, self.summaries = runs, summaries

    def find(self, key: str) -> Outcome | None:
        """The outcome of a key, if there is one that can be read; a damaged one is made again."""
        for path in self._paths(key):
            try:
                found = Outcome.model_validate_json(path.read_text(encoding="utf-8"))
            except (FileNotFoundError, NotADirectoryError, ValidationError, UnicodeDecodeError):
                continue
            except OSError as error:
                raise UserError(f"{path}: cannot be read ({error.strerror})") from error
            if found.key == key:
                self._share(path, key)
                return found
        return None

    def _share(self, path: Path, key: str) -> None:
        """What was found beside a run goes to the summaries, too."""
        *_, shared = self._paths(key)
        if not shared.exists():
            make_directory(shared.parent)
            write_whole(shared, path.read_text(encoding="utf-8"))

    def keep(self, outcome: Outcome) -> Outcome:
        """Write an outcome, whole or not at all; as it was written, so that tables are the same the next time."""
        text = json.dumps(_rounded(outcome.model_dump(mode="json")), indent=1, ensure_ascii=False) + "\n"
        for path in self._paths(outcome.key):
            make_directory(path.parent)
            write_whole(path, text)
        return Outcome.model_validate_json(text)

    def _paths(self, key: str) -> list[Path]:
        summaries = [] if self.summaries is None else [self.summaries / f"{key}.json"]
        return [self.runs / key / "outcome.json", *summaries]


def _rounded(value: Any) -> Any:
    """Six digits tell all that a figure has to tell."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: each if key == "job" else _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value
