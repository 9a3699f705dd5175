"""The report: one page that needs nothing but itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from gfn4rec.experiments.table_formats import to_html
from gfn4rec.experiments.tables import Table


@dataclass(frozen=True)
class Plot:
    """A picture's elements with their words; the name is its place in the page."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Slates:
    """What a policy shows: the user, how the slate was chosen, and the titles in their order."""

    policy: str
    rows: Sequence[tuple[str, str, Sequence[str]]]


@dataclass(frozen=True)
class Section:
    """A part of the report; the name is its place in the page."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    slates: Sequence[Slates] = ()


@dataclass(frozen=True)
class Report:
    """All that the page says."""

    title: str
    subtitle: str
    paragraphs: Sequence[str] = ()
    sections: Sequence[Section] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the figures were made with: versions, machine, commit."""
    notice: str | None = None
    """What a reader must know before any figure."""


def render_report(report: Report) -> str:
    """The page, as HTML."""
    source = files("gfn4rec.experiments").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(source).render(report=report, table=lambda table: Markup(to_html(table)), svg=Markup)
