"""From names of tables and figures to a directory with all of them, and one page that shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gfn4rec.errors import RunError, UserError
from gfn4rec.experiments.jobs.campaign import CampaignResults, Lab, ReportCampaign, carry_out
from gfn4rec.experiments.jobs.result import GREEDY
from gfn4rec.experiments.jobs.run_directories import find_run_directory
from gfn4rec.experiments.jobs.store import ResultStore
from gfn4rec.experiments.jobs.tasks import JobTask, OracleTask, Task
from gfn4rec.experiments.paper.page import PAGE, PLOTS, README, TABLES, WrittenReport, write_report
from gfn4rec.experiments.paper.protocol import Need, Protocol
from gfn4rec.experiments.paper.published import published_for
from gfn4rec.experiments.paper.reproductions import Reproduction, select
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.paper.tuning import with_published_settings
from gfn4rec.storage import MANIFEST, make_directory, refuse_any, write_whole

_RUN_LIST = "runs.csv"


@dataclass(frozen=True)
class Plan:
    """The tasks of an experiment."""

    jobs: Mapping[Need, Sequence[JobTask]]
    """The runs of each model, one per seed."""
    oracle: OracleTask | None

    @property
    def tasks(self) -> list[Task]:
        """All runs, and the oracle if a figure or table needs it."""
        jobs = [job for jobs in self.jobs.values() for job in jobs]
        return [*jobs, *([] if self.oracle is None else [self.oracle])]


def reproduce(
    names: Sequence[str], protocol: Protocol, lab: Lab, out: Path, report: ReportCampaign = lambda _: None
) -> WrittenReport:
    """Make the runs that are not known yet, then write the tables, plots and pages."""
    sections = select(names)
    out, lab = out.resolve(), lab.resolved()
    protocol = with_published_settings(protocol, lab.benchmark)
    plan = _plan(sections, protocol, lab, out)
    _prepare_directories(lab, out, plan)
    done = carry_out(plan.tasks, ResultStore(out / "runs", lab.summaries), lab.engine, report)
    results = _collect(plan, done, protocol, lab)
    complete = {name: section for name, section in sections.items() if set(section.needs) <= results.runs.keys()}
    if done.failures and not complete:
        raise RunError(f"no table could be made, and existing ones are unchanged; {_describe(done.failures)}")
    _write_run_list(plan, done, out)
    written = write_report(complete, results, out)
    if done.failures:
        missing = ", ".join(name for name in sections if name not in complete)
        raise RunError(f"{f'left out: {missing}; ' if missing else ''}{_describe(done.failures)}")
    return written


def refuse_foreign_report(out: Path) -> None:
    """Raise UserError if pages would replace files that no reproduction has written."""
    refuse_any(out)
    if not (out / _RUN_LIST).exists():
        for name in (PAGE, README):
            if (out / name).exists():
                raise UserError(f"{out / name}: exists, and not from `gfn4rec reproduce`; choose another --out")


def _plan(sections: Mapping[str, Reproduction], protocol: Protocol, lab: Lab, out: Path) -> Plan:
    """Plan a run for each model and seed; sections share runs."""
    needs = dict.fromkeys(need for section in sections.values() for need in section.needs)
    jobs = {
        need: [JobTask(job, lab.benchmark, out / "runs", lab.device, need[1]) for job in protocol.jobs(need)]
        for need in needs
    }
    if not any(section.needs_oracle for section in sections.values()):
        return Plan(jobs, None)
    online = next(first.job for (mode, _), (first, *_) in jobs.items() if mode == "online")
    return Plan(jobs, OracleTask(online, lab.benchmark, lab.device))


def _prepare_directories(lab: Lab, out: Path, plan: Plan) -> None:
    """Create the directories, after checking the benchmark: a mistake in it leaves no trace on disk."""
    if plan.jobs or lab.benchmark.simulator_path is not None:
        lab.benchmark.identity  # noqa: B018 - reads the data set and the simulator
    for folder in (*([] if lab.summaries is None else [lab.summaries]), out / TABLES, out / PLOTS):
        make_directory(folder)


def _collect(plan: Plan, done: CampaignResults, protocol: Protocol, lab: Lab) -> Results:
    """Return the results of all models whose seeds are complete."""
    data = lab.benchmark.data
    runs = {
        need: [done.jobs[job.key()] for job in jobs]
        for need, jobs in plan.jobs.items()
        if all(job.key() in done.jobs for job in jobs)
    }
    oracle = [point for result in done.oracles.values() for point in result.points]
    published = published_for(data.name, data.settings)
    return Results(lab.benchmark, protocol, runs, oracle, published)


def _write_run_list(plan: Plan, done: CampaignResults, out: Path) -> None:
    """List the runs with their models; the directory is empty for a run that is known from a summary only."""
    lines = ["run,mode,model,seed,reward,coverage"]
    for (mode, model), jobs in plan.jobs.items():
        for task in jobs:
            key = task.key()
            if key not in done.jobs:
                continue
            metrics, seed = done.jobs[key].metrics[GREEDY], task.job.settings.seed
            run = find_run_directory(task.job, task.benchmark, task.runs)
            directory = f"runs/{run.name}" if run is not None and (run / MANIFEST).exists() else ""
            lines.append(f'{directory},{mode},"{model}",{seed},{metrics["reward"]:.4f},{metrics["coverage"]:.1f}')
    write_whole(out / _RUN_LIST, "\n".join(lines) + "\n")


def _describe(failures: Sequence[str]) -> str:
    return f"{len(failures)} failed, the first: {failures[0]}"
