"""The report: one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from gfn4rec.experiments.report.table_formats import to_html
from gfn4rec.experiments.report.tables import Table


@dataclass(frozen=True)
class Plot:
    """A picture with its title and caption; `name` is its anchor on the page."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Slates:
    """Example slates of a policy: the user, how the slate was chosen, and the titles in order."""

    policy: str
    rows: Sequence[tuple[str, str, Sequence[str]]]


@dataclass(frozen=True)
class Section:
    """A section of the report; `name` is its anchor on the page."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    slates: Sequence[Slates] = ()
    notes: Sequence[str] = ()
    """Paragraphs below the tables."""


@dataclass(frozen=True)
class Report:
    """The content of the page."""

    title: str
    subtitle: str
    paragraphs: Sequence[str] = ()
    sections: Sequence[Section] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions, settings, machine and commits, by name."""
    notice: str | None = None
    """A warning at the top of the page."""


def render_report(report: Report) -> str:
    """Return the page as HTML."""
    source = files("gfn4rec.experiments.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(source).render(report=report, table=lambda table: Markup(to_html(table)), svg=Markup)
