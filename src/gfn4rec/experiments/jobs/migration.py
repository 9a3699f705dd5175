"""Convert a directory of results of earlier versions: JSON files named by old keys become JSON lines with new ones."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from gfn4rec.experiments.benchmark import Benchmark
from gfn4rec.experiments.jobs.old_results import OLD_ORACLE, read_old_oracle, read_old_result
from gfn4rec.experiments.jobs.result import JobResult, OracleResult
from gfn4rec.experiments.jobs.store import file_name, summary_file
from gfn4rec.experiments.jobs.tasks import OracleTask


def migrate(folder: Path, benchmarks: Sequence[Benchmark]) -> Counter[str]:
    """Convert the results that belong to `benchmarks`; return how many went to which file.

    A file is converted and deleted only if its name is the old key of its content in one of the benchmarks; all others
    are left as they are. Values do not change.
    """
    tasks = dict[str, OracleTask]()
    converted = dict[Path, JobResult | OracleResult]()
    for path in sorted(folder.glob("[!.]*.json")):
        if (result := read_old_result(path, path.stem)) is None:
            continue
        tasks |= {task.key(): task for task in (OracleTask(result.job, benchmark) for benchmark in benchmarks)}
        for benchmark in benchmarks:
            if result.job.legacy_key(benchmark) == path.stem:
                converted[path] = result.model_copy(update={"key": result.job.key(benchmark)})
    for path in sorted(folder.glob(f"{OLD_ORACLE}*.json")):
        task = tasks.get(path.stem.removeprefix(OLD_ORACLE))
        if task is not None and (oracle := read_old_oracle(path, task)) is not None:
            converted[path] = oracle
    _write(folder, list(converted.values()))
    for path in converted:
        path.unlink()
    return Counter(file_name(result) for result in converted.values())


def _write(folder: Path, results: Sequence[JobResult | OracleResult]) -> None:
    by_file = defaultdict[str, list[JobResult | OracleResult]](list)
    for result in results:
        by_file[file_name(result)].append(result)
    for name, group in by_file.items():
        summary_file(folder / name).put(*(result.entry() for result in group))
