"""Pictures made of small panels: separate SVG elements for a page, or one PNG image."""

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_WIDTH: Final = 3.8
_HEIGHT: Final = 2.7
"""Size of a panel in inches: small, so that its text stays legible when a narrow screen shrinks it."""
_STYLE: Final[dict[str, str | float | bool | list[str]]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#444444",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "xtick.labelcolor": "#444444",
    "ytick.labelcolor": "#444444",
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gfn4rec",  # makes ids reproducible
}


@dataclass(frozen=True)
class Panel:
    """One plot of a picture."""

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Picture:
    """Panels with one legend, placed outside of them."""

    panels: Sequence[Panel]

    def figure(self) -> Figure:
        """Draw all panels, two in a row; a single panel is drawn larger."""
        num_columns = min(2, len(self.panels))
        num_rows = -(-len(self.panels) // num_columns)
        zoom = 1.6 if len(self.panels) == 1 else 1.0
        width, height = zoom * _WIDTH * num_columns, zoom * _HEIGHT * num_rows + 0.3
        with style.context(_STYLE):
            figure = Figure(figsize=(width, height), layout="constrained")
            for number, panel in enumerate(self.panels):
                _draw(figure.add_subplot(num_rows, num_columns, number + 1), panel)
            _add_legend(figure, _find_handles(figure.axes), width, "outside upper left")
        return figure

    def png(self) -> bytes:
        """Return one image of all panels."""
        with style.context(_STYLE):
            return _save(self.figure(), "png", {"Software": None})

    def svg(self, name: str) -> str:
        """Return SVG elements for a page: a legend, if there are several series, and each panel.

        Ids start with the name, so that pictures with different names can share a page.
        """
        with style.context(_STYLE):
            figures = [(panel.title, _draw_single(panel)) for panel in self.panels]
            handles = _find_handles([axis for _, figure in figures for axis in figure.axes])
            if len(handles) > 1:
                figures.insert(0, (f"Legend: {', '.join(handles)}", _draw_legend(handles)))
            return "\n".join(_to_svg(figure, f"{name}-{n}", title) for n, (title, figure) in enumerate(figures))


def _draw(axis: Axes, panel: Panel) -> None:
    panel.draw(axis)
    axis.set_title(panel.title)


def _draw_single(panel: Panel) -> Figure:
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    _draw(figure.add_subplot(), panel)
    return figure


def _find_handles(axes: Sequence[Axes]) -> dict[str, Artist]:
    """Return legend entries by label; a series shown in several panels has one entry."""
    handles: dict[str, Artist] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    return handles


def _num_legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many columns fit, from the width of a letter and of a line sample."""
    entry = 0.075 * max(map(len, labels)) + 0.55
    return max(1, min(len(labels), int(width / entry)))


def _add_legend(
    figure: Figure, handles: dict[str, Artist], width: float, place: Literal["outside upper left", "center left"]
) -> None:
    if len(handles) > 1:
        columns = _num_legend_columns(list(handles), width)
        figure.legend(list(handles.values()), list(handles), loc=place, ncols=columns, borderaxespad=0.2)


def _draw_legend(handles: dict[str, Artist]) -> Figure:
    num_rows = -(-len(handles) // _num_legend_columns(list(handles), _WIDTH))
    figure = Figure(figsize=(_WIDTH, 0.19 * num_rows + 0.08))
    _add_legend(figure, handles, _WIDTH, "center left")
    return figure


def _to_svg(figure: Figure, prefix: str, title: str) -> str:
    """Return the bare SVG element with prefixed ids: all pictures of a page share one id namespace."""
    no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    text = _save(figure, "svg", no_metadata).decode()
    element = text[text.index("<svg ") :].strip()
    element = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", element)
    return element.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)


def _save(figure: Figure, file_format: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
    return buffer.getvalue()
