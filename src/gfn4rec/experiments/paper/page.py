"""The files of a report: tables, plots, an HTML page, and the same as Markdown."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gfn4rec.experiments.paper.figures import CaptionedPicture
from gfn4rec.experiments.paper.models import MODELS, Settings
from gfn4rec.experiments.paper.protocol import Protocol
from gfn4rec.experiments.paper.published import Reasons, describe_differences
from gfn4rec.experiments.paper.reproductions import Reproduction
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.report import Plot, Report, Section, Slates, render_report
from gfn4rec.experiments.report.table_formats import to_csv, to_latex, to_markdown, wrap
from gfn4rec.experiments.report.tables import Table
from gfn4rec.storage import write_whole

PAGE: Final = "index.html"
README: Final = "README.md"
TABLES: Final = "tables"
PLOTS: Final = "plots"


@dataclass(frozen=True)
class WrittenReport:
    """The tables of a report by name, and the path of its page."""

    tables: Mapping[str, Table]
    page: Path


@dataclass(frozen=True)
class _Content:
    """The tables and figures of a section, made from results."""

    name: str
    title: str
    text: str
    tables: Sequence[Table]
    notes: Sequence[str]
    """How and why values differ from the paper's."""
    pictures: Sequence[CaptionedPicture]


def write_report(sections: Mapping[str, Reproduction], results: Results, out: Path) -> WrittenReport:
    """Write tables as Markdown, LaTeX and CSV, plots as PNG, and the whole report as HTML and as Markdown."""
    contents = [_make_content(name, section, results) for name, section in sections.items()]
    for content in contents:
        _write_files(content, out)
    write_whole(out / README, _to_markdown(results.benchmark.title(), contents))
    page = out / PAGE
    write_whole(page, render_report(_to_report(contents, results)))
    return WrittenReport({table.name: table for content in contents for table in content.tables}, page)


def _make_content(name: str, section: Reproduction, results: Results) -> _Content:
    tables = [make_table(results) for make_table in section.tables]
    pictures = [make_picture(results) for make_picture in section.pictures]
    notes = describe_differences(tables, _reasons(results))
    return _Content(name, section.title, section.text, tables, notes, pictures)


def _reasons(results: Results) -> Reasons:
    """Return the reasons for differences from the paper; with another simulator, only those of the data set apply."""
    reasons = results.paper.reasons
    return {table: rows for table, rows in reasons.items() if table == "data" or results.is_of_authors}


def _write_files(content: _Content, out: Path) -> None:
    for table in content.tables:
        for suffix, write in (("md", to_markdown), ("tex", to_latex), ("csv", to_csv)):
            write_whole(out / TABLES / f"{table.name}.{suffix}", write(table))
    for picture in content.pictures:
        write_whole(out / PLOTS / f"{picture.name}.png", picture.picture.png())


def _to_markdown(title: str, contents: Sequence[_Content]) -> str:
    parts = [f"# {title}\n"]
    for content in contents:
        parts += [f"## {content.title}\n", f"{wrap(content.text)}\n"]
        parts += [to_markdown(table) for table in content.tables]
        parts += [f"{wrap(note)}\n" for note in content.notes]
        for picture in content.pictures:
            parts += [f"![{picture.title}]({PLOTS}/{picture.name}.png)\n", f"{wrap(picture.caption)}\n"]
    return "\n".join(parts)


def _to_report(contents: Sequence[_Content], results: Results) -> Report:
    budget = results.protocol.budget
    sections = [
        Section(
            name=content.name,
            title=content.title,
            paragraphs=[content.text],
            tables=content.tables,
            plots=[_to_plot(picture) for picture in content.pictures],
            notes=content.notes,
        )
        for content in contents
    ]
    return Report(
        title="GFN4Rec, reproduced",
        subtitle=f"{results.benchmark.title()}, {budget.name} budget",
        paragraphs=[
            "This page reproduces tables and figures of “Generative Flow Network for Listwise Recommendation” (KDD "
            "2023), or shows studies beyond it; each section says which. Where the paper prints values, they stand "
            "below ours."
        ],
        sections=[*sections, *_example_slates(results)],
        environment=environment(results),
        notice=budget.notice,
    )


def _to_plot(picture: CaptionedPicture) -> Plot:
    return Plot(picture.name, picture.title, picture.caption, picture.picture.svg(picture.name))


def _example_slates(results: Results) -> list[Section]:
    """Show the slates of each compared model for the same few users."""
    slates = [
        Slates(
            model if mode == "online" else f"{model}, trained offline",
            [(example.user, example.way, example.titles) for example in runs[0].examples],
        )
        for (mode, model), runs in results.runs.items()
        if MODELS[model].role == "compared"
    ]
    text = "These are slates for a few users of the log, greedy and sampled, with the policies of the first seed."
    return [Section("slates", "Example slates", [text], slates=slates)] if slates else []


def environment(results: Results) -> dict[str, str]:
    """Describe what the results were computed with: data, settings, versions and machine."""
    # By their keys: models of different tables may share a run.
    runs = {run.key: run for runs in results.runs.values() for run in runs}.values()
    names = dict.fromkeys(name for run in runs for name in run.versions)
    versions = {name: ", ".join(sorted({run.versions.get(name, "unknown") for run in runs})) for name in names}
    commits = sorted({(run.git_hash or "unknown")[:12] for run in runs})
    has_simulator = results.benchmark.simulator_path is not None
    return {
        "Data set": results.benchmark.data.name,
        **({"Simulator": results.benchmark.simulator.kind} if has_simulator else {}),
        **_describe_settings(results.protocol),
        "Runs": f"{len(runs)}, trained for {sum(run.seconds for run in runs) / 3600:.1f} hours in total",
        **versions,
        "Commits": ", ".join(commits) or "none",
        "Python": platform.python_version(),
        "Page written on": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _describe_settings(protocol: Protocol) -> dict[str, str]:
    """List the settings that were tuned, taken from the paper or set by the user, by model."""
    settings = {
        f"{name}, {mode}": _list(changes) for mode, tuned in protocol.tuned.items() for name, changes in tuned.items()
    }
    settings["All models"] = _list(protocol.changes)
    return {f"Settings of {name}": text for name, text in settings.items() if text} | {"Other settings": "defaults"}


def _list(settings: Settings) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items())
