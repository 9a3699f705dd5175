"""From the names of tables and figures to a directory with all of them, and one page that shows them."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gfn4rec.config import nearest
from gfn4rec.errors import RunError, UserError
from gfn4rec.experiments.campaign import Carried, Shelf, Watch, carry_out
from gfn4rec.experiments.disagreement import disagreements
from gfn4rec.experiments.findings import Findings
from gfn4rec.experiments.lab import Lab
from gfn4rec.experiments.models import MODELS
from gfn4rec.experiments.outcome import GREEDY, Outcome
from gfn4rec.experiments.protocol import Need, Protocol
from gfn4rec.experiments.published import published_for
from gfn4rec.experiments.report import Plot, Report, Section, Slates, render_report
from gfn4rec.experiments.reproductions import REPRODUCTIONS, Reproduction
from gfn4rec.experiments.table_formats import to_csv, to_latex, to_markdown
from gfn4rec.experiments.tables import Table
from gfn4rec.experiments.tasks import JobTask, RulerTask, Task
from gfn4rec.experiments.tuning import with_published_settings
from gfn4rec.experiments.world import World
from gfn4rec.storage import MANIFEST, make_directory, write_whole

_RUNS, _PAGE, _TEXT = "runs.csv", "index.html", "README.md"
GROUPS = {"all": True, "studies": False}  # whether they are of the paper


@dataclass(frozen=True)
class Made:
    """What a reproduction has made."""

    tables: Mapping[str, Table]
    page: Path


def chosen(names: Sequence[str]) -> list[str]:
    """Names of reproductions in their order; `all` means all of the paper, `studies` this project's own."""
    for name in names:
        if name not in (*REPRODUCTIONS, *GROUPS):
            raise UserError(f"no table {name!r}; {nearest(name, [*REPRODUCTIONS, *GROUPS])}")
    return [
        name
        for name, each in REPRODUCTIONS.items()
        if name in names
        or any(group in names and each.is_of_paper == is_of_paper for group, is_of_paper in GROUPS.items())
    ]


def refuse_foreign_report(out: Path) -> None:
    """Pages may be written over only where a reproduction has written them."""
    if (out / MANIFEST).exists():
        raise UserError(f"{out}: is a data set, a simulator, a run or the like; choose another --out")
    if not (out / _RUNS).exists():
        for name in (_PAGE, _TEXT):
            if (out / name).exists():
                raise UserError(f"{out / name}: is there, and not by `gfn4rec reproduce`; choose another --out")


def needs_of(names: Sequence[str]) -> list[Need]:
    """The models that they compare; none if they are about the log alone."""
    return list(dict.fromkeys(need for name in chosen(names) for need in REPRODUCTIONS[name].needs))


def reproduce(
    names: Sequence[str],
    protocol: Protocol,
    lab: Lab,
    out: Path,
    watch: Watch = lambda _: None,
) -> Made:
    """Do the runs that are not known yet, then write tables, plots and the page."""
    wanted = {name: REPRODUCTIONS[name] for name in chosen(names)}
    out, lab = out.resolve(), lab.resolved()
    world = lab.world
    protocol = with_published_settings(protocol, world)
    tasks = {
        need: [JobTask(job, world, out / "runs", lab.device, need[1]) for job in protocol.jobs(need)]
        for need in needs_of(names)
    }
    if tasks or world.simulator_path is not None:
        world.identity  # noqa: B018 - what is wrong with it is told before anything is written
    for folder in (*([] if lab.summaries is None else [lab.summaries]), out / "tables", out / "plots"):
        make_directory(folder)
    every: list[Task] = [task for each in tasks.values() for task in each]
    ruler = None
    if any(each.needs_ruler for each in wanted.values()):
        ruler = RulerTask(
            next(task.job for (kind, _), (task, *_) in tasks.items() if kind == "online"), world, lab.device
        )
        every.append(ruler)
    carried = carry_out(every, Shelf(out / "runs", lab.summaries), lab.engine, watch)
    findings = _findings(world, protocol, tasks, carried, ruler)
    whole = {name: each for name, each in wanted.items() if all(need in findings.outcomes for need in each.needs)}
    if carried.failures and not whole:
        raise RunError(f"nothing could be made, and what was there is left as it was; {_told(carried.failures)}")
    _write_list(tasks, carried.found, out)
    made = write_all(whole, findings, out)
    if carried.failures:
        left_out = ", ".join(name for name in wanted if name not in whole)
        raise RunError(f"{f'left out: {left_out}; ' if left_out else ''}{_told(carried.failures)}")
    return made


def _told(failures: Sequence[str]) -> str:
    return f"{len(failures)} failed, the first: {failures[0]}"


def _findings(
    world: World,
    protocol: Protocol,
    tasks: Mapping[Need, Sequence[JobTask]],
    carried: Carried,
    ruler: RulerTask | None,
) -> Findings:
    """What was needed and found with every seed."""
    outcomes: dict[Need, list[Outcome]] = {
        need: [carried.found[task.key()] for task in each]
        for need, each in tasks.items()
        if all(task.key() in carried.found for task in each)
    }
    points = carried.found.get(ruler.key(), []) if ruler else []
    return Findings(world, protocol, outcomes, points, published_for(world.data.name, world.data.settings))


def _write_list(tasks: Mapping[Need, Sequence[JobTask]], found: Mapping[str, Any], out: Path) -> None:
    """Which run is whose; those known by their summaries only are elsewhere."""
    lines = ["run,kind,model,seed,reward,coverage"]
    for (kind, model), each in tasks.items():
        for task in each:
            if task.key() not in found:
                continue
            row, seed = found[task.key()].figures[GREEDY], task.job.settings.seed
            where = f"runs/{task.key()}" if (task.runs / task.key() / MANIFEST).exists() else ""
            lines.append(f'{where},{kind},"{model}",{seed},{row["reward"]:.4f},{row["coverage"]:.1f}')
    write_whole(out / _RUNS, "\n".join(lines) + "\n")


def write_all(wanted: Mapping[str, Reproduction], findings: Findings, out: Path) -> Made:
    """Tables as Markdown, LaTeX and CSV, plots as PNG, the page as HTML, and a page to read as it stands."""
    sections, tables, text = [], dict[str, Table](), [f"# {findings.world.title()}\n"]
    for name, each in wanted.items():
        made = [make(findings) for make in each.tables]
        pictures = [make(findings) for make in each.pictures]
        paragraphs = [each.words, *disagreements(made, _reasons(findings))]
        plots = [Plot(one.name, one.title, one.caption, one.picture.svg(one.name)) for one in pictures]
        sections.append(Section(name, each.title, paragraphs, made, plots))
        tables |= {table.name: table for table in made}
        _write_tables(made, out)
        for picture in pictures:
            write_whole(out / "plots" / f"{picture.name}.png", picture.picture.png())
        text += [f"## {each.title}\n", *(f"{paragraph}\n" for paragraph in paragraphs)]
        text += [to_markdown(table) + "\n" for table in made]
        text += [f"![{picture.title}](plots/{picture.name}.png)\n\n{picture.caption}\n" for picture in pictures]
    sections += _slates(findings)
    page = out / _PAGE
    write_whole(page, render_report(_report(sections, findings)))
    write_whole(out / _TEXT, "\n".join(text))
    return Made(tables, page)


def _reasons(findings: Findings) -> Mapping[str, Mapping[str, str]]:
    """Why figures are others than the paper's. Of users who are not its own, that is all there is to say."""
    reasons = findings.published.reasons if findings.published else {}
    return {name: each for name, each in reasons.items() if name == "data" or findings.is_of_authors}


def _write_tables(tables: Sequence[Table], out: Path) -> None:
    for table in tables:
        for ending, write in (("md", to_markdown), ("tex", to_latex), ("csv", to_csv)):
            write_whole(out / "tables" / f"{table.name}.{ending}", write(table))


def _slates(findings: Findings) -> list[Section]:
    """What each policy of the paper's tables, and of those beside them, shows to the same few users."""
    shown = [
        Slates(
            model if kind == "online" else f"{model}, learned offline",
            [(each.user, each.way, each.titles) for each in outcomes[0].examples],
        )
        for (kind, model), outcomes in findings.outcomes.items()
        if MODELS[model].role == "compared"
    ]
    words = "What the first seed's policies show to users of the log: greedily, and sampled."
    return [Section("slates", "A few slates", [words], slates=shown)] if shown else []


def _report(sections: Sequence[Section], findings: Findings) -> Report:
    budget = findings.protocol.budget
    return Report(
        title="GFN4Rec, reproduced",
        subtitle=f"{findings.world.title()}, {budget.name} budget",
        paragraphs=[
            "Tables and figures of “Generative Flow Network for Listwise Recommendation” (KDD 2023), "
            "made anew. Beside our figures stand the paper's, where it has them, and the difference."
        ],
        sections=sections,
        environment=environment(findings),
        notice=budget.notice,
    )


def environment(findings: Findings) -> dict[str, str]:
    """What the figures were made with."""
    # By their keys: some models of different tables are the same runs.
    outcomes = {outcome.key: outcome for each in findings.outcomes.values() for outcome in each}.values()
    versions = {
        name: ", ".join(sorted({outcome.versions.get(name, "unknown") for outcome in outcomes}))
        for name in dict.fromkeys(name for outcome in outcomes for name in outcome.versions)
    }
    commits = sorted({(outcome.git_hash or "unknown")[:12] for outcome in outcomes})
    return {
        "data set": findings.world.data.name,
        **({} if findings.world.simulator_path is None else {"simulator": findings.world.simulator.kind}),
        **_settings(findings.protocol),
        "runs": f"{len(outcomes)}, {sum(outcome.seconds for outcome in outcomes) / 3600:.1f} hours of learning",
        **versions,
        "commits": ", ".join(commits) or "none",
        "Python": platform.python_version(),
        "page made on": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _settings(protocol: Protocol) -> dict[str, str]:
    """What was found by a search, taken from the paper or changed by the user."""
    told = {
        f"settings {kind}": "; ".join(f"{policy}: {_list(changes)}" for policy, changes in tuned.items())
        for kind, tuned in protocol.tuned.items()
    }
    known = {name: text for name, text in {**told, "settings of all": _list(protocol.changes)}.items() if text}
    return {**known, "other settings": "defaults"}


def _list(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in changes.items())
