"""Plots of a simulator, as PNG bytes."""

import io
from collections.abc import Mapping, Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gfn4rec.simulator.calibration import Reliability
from gfn4rec.simulator.support import SupportBin


def plot_reliability(curves: Mapping[str, Mapping[str, Reliability]]) -> bytes:
    """Return a PNG of the observed share against the predicted probability, per behaviour, with a line per split."""
    behaviours = list(next(iter(curves.values())))
    figure = Figure(figsize=(3.2 * len(behaviours), 3.4), layout="constrained")
    axes = figure.subplots(1, len(behaviours), squeeze=False)[0]
    for axis, behaviour in zip(axes, behaviours, strict=True):
        most = 0.0
        for split, of_split in curves.items():
            curve = of_split[behaviour]
            axis.plot(
                curve.predicted, curve.observed, marker="o", markersize=3, label=f"{split}, error {curve.error:.4f}"
            )
            most = max(most, *curve.predicted, *curve.observed)
        axis.plot([0, most], [0, most], color="grey", linewidth=0.8, linestyle="--")
        axis.set(title=behaviour, xlabel="predicted", ylabel="observed")
        axis.legend(fontsize="small")
    return figure_bytes(figure)


def plot_support(bins: Sequence[SupportBin]) -> bytes:
    """Return a PNG of predicted and observed responses, and of what is not known, by the rows that items have."""
    ticks = range(len(bins))
    labels = [f"{part.fewest}+" if part.most is None else f"{part.fewest}-{part.most}" for part in bins]
    has_ignorance = any(part.disagreement is not None for part in bins)
    figure = Figure(figsize=(6.4 * (1 + has_ignorance), 3.6), layout="constrained")
    axes = figure.subplots(1, 1 + has_ignorance, squeeze=False)[0]
    filled = [(tick, part) for tick, part in zip(ticks, bins, strict=True) if part.num_rows]
    for number, name in enumerate(filled[0][1].predicted if filled else ()):
        where, colour = [tick for tick, _ in filled], f"C{number}"
        axes[0].plot(where, [part.observed[name] for _, part in filled], "o", color=colour, label=f"{name}, observed")
        axes[0].plot(where, [part.predicted[name] for _, part in filled], color=colour, label=f"{name}, predicted")
    axes[0].set(title="Responses to held-out items", ylabel="share of rows")
    if has_ignorance:
        known = [(tick, part) for tick, part in zip(ticks, bins, strict=True) if part.disagreement is not None]
        for key, colour in (("disagreement", "C3"), ("trust", "C7")):
            values = [getattr(part, key) for _, part in known]
            axes[1].plot([tick for tick, _ in known], values, marker="o", color=colour, label=key)
        axes[1].set(title="What is not known of any item", ylim=(0, None))
    for axis in axes:
        axis.set(xticks=list(ticks), xticklabels=labels, xlabel="training rows of the item")
        axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return figure_bytes(figure)


def figure_bytes(figure: Figure) -> bytes:
    """Return the PNG file of a figure."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()
