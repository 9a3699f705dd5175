"""Where results are kept: beside their runs and, to share them between machines, in a directory of summaries."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from gfn4rec.errors import UserError
from gfn4rec.experiments.jobs.execute import lacks_metrics
from gfn4rec.experiments.jobs.json_lines import JsonLines
from gfn4rec.experiments.jobs.old_results import OLD_ORACLE, read_old_oracle, read_old_result
from gfn4rec.experiments.jobs.result import JobResult, OracleResult
from gfn4rec.experiments.jobs.run_directories import (
    claim_run_directory,
    find_run_directory,
    mark_run_directory,
    open_run,
)
from gfn4rec.experiments.jobs.tasks import JobTask, OracleTask
from gfn4rec.storage import make_directory

MEASUREMENTS: Final = "measurements.jsonl"  # in the directory of a run
ORACLES: Final = "oracles.jsonl"
AnyResult = TypeVar("AnyResult", JobResult, OracleResult)


class ResultStore:
    """Results by key.

    The result of a job stands in `measurements.jsonl` of its run. The summaries have one file per benchmark, as
    `ml-1m-reference.jsonl`, and get every result that is found or added. Oracles stand in `oracles.jsonl` of both.
    """

    def __init__(self, runs: Path, summaries: Path | None = None) -> None:
        self.runs, self.summaries = runs, summaries
        self._files: dict[Path, JsonLines] = {}

    def find(self, task: JobTask) -> JobResult | None:
        """Return the result of a job, if there is one that can be read."""
        result = self._find_beside_run(task) or self._find_summary(JobResult, task.key()) or self._find_old(task)
        return result and self._summarise(result)

    def keep(self, task: JobTask, result: JobResult) -> JobResult:
        """Add a result, or the metrics that the known one lacks; return it as it will be found."""
        known = self.find(task)
        result = JobResult.model_validate((known.completed_by(result) if known else result).entry())
        with claim_run_directory(task.job, task.benchmark, self.runs) as directory:
            make_directory(directory)
            mark_run_directory(task.job, task.benchmark, directory)
            self._file(directory / MEASUREMENTS).put(result.entry())
        return self._summarise(result)

    def can_complete(self, task: JobTask, result: JobResult) -> bool:
        """Whether metrics are missing that can be measured, because the run is at hand."""
        directory = find_run_directory(task.job, task.benchmark, self.runs)
        if directory is None or not lacks_metrics(result):
            return False
        run = open_run(directory)
        return run is not None and run.results is not None

    def find_oracle(self, task: OracleTask) -> OracleResult | None:
        """Return the result of an oracle, if there is one that can be read."""
        beside = _parse(OracleResult, self._file(self.runs / ORACLES).find(task.key()))
        result = beside or self._find_summary(OracleResult, task.key()) or self._find_old_oracle(task)
        return result and self.keep_oracle(result)

    def keep_oracle(self, result: OracleResult) -> OracleResult:
        """Add the result of an oracle."""
        beside = self._file(self.runs / ORACLES)
        if beside.find(result.key) is None:
            beside.put(result.entry())
        return self._summarise(result)

    def _find_beside_run(self, task: JobTask) -> JobResult | None:
        directory = find_run_directory(task.job, task.benchmark, self.runs)
        if directory is None:
            return None
        return _parse(JobResult, self._file(directory / MEASUREMENTS).find(task.key()))

    def _find_old(self, task: JobTask) -> JobResult | None:
        """Find a file of an earlier version, which had one file per result, named by the old key."""
        name = task.job.legacy_key(task.benchmark)
        paths = [self.runs / name / "outcome.json"]
        if self.summaries is not None:
            paths.append(self.summaries / f"{name}.json")
        results = (read_old_result(path, name) for path in paths)
        return next((result.model_copy(update={"key": task.key()}) for result in results if result is not None), None)

    def _find_old_oracle(self, task: OracleTask) -> OracleResult | None:
        folders = [self.runs] if self.summaries is None else [self.runs, self.summaries]
        results = (read_old_oracle(folder / f"{OLD_ORACLE}{task.key()}.json", task) for folder in folders)
        return next((result for result in results if result is not None), None)

    def _find_summary(self, kind: type[AnyResult], key: str) -> AnyResult | None:
        results = (_parse(kind, file.find(key)) for file in self._summary_files())
        return next((result for result in results if result is not None), None)

    def _summary_files(self) -> Iterator[JsonLines]:
        paths = sorted(self.summaries.glob("*.jsonl")) if self.summaries is not None else []
        return (self._file(path) for path in paths)

    def _summarise(self, result: AnyResult) -> AnyResult:
        """Add a result to the summaries, or metrics that the one there lacks; its values stay as they are."""
        if self.summaries is None:
            return result
        known = self._find_summary(type(result), result.key)
        fresh = result if known is None else known.completed_by(result)
        if fresh != known:
            self._file(self.summaries / file_name(result)).put(fresh.entry())
        return result

    def _file(self, path: Path) -> JsonLines:
        return self._files.setdefault(path, summary_file(path))


def summary_file(path: Path) -> JsonLines:
    """Return a file of results: of oracles by their benchmark, of others by policy, mode and seed."""
    return JsonLines(path, _oracle_order if path.name == ORACLES else _result_order)


def file_name(result: JobResult | OracleResult) -> str:
    """Return the name of the summaries' file for a result: one per benchmark, and one for all oracles."""
    if isinstance(result, OracleResult):
        return ORACLES
    name = re.sub(r"[^\w.-]+", "-", result.data).lower()
    return f"{name}-reference.jsonl" if result.simulator == "reference" else f"{name}.jsonl"


def _result_order(entry: Any) -> tuple[str, str, int, str]:
    settings = entry["job"]["settings"]
    return settings["policy"], settings["kind"], settings["seed"], entry["key"]


def _oracle_order(entry: Any) -> tuple[str, str, str]:
    return entry["data"], entry["simulator"], entry["key"]


def _parse(kind: type[AnyResult], entry: object) -> AnyResult | None:
    try:
        return None if entry is None else kind.model_validate(entry)
    except (ValidationError, UserError):  # settings that this version does not have
        return None
