"""Plots of a simulator, as PNG bytes."""

import io
from collections.abc import Mapping

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gfn4rec.simulator.calibration import Reliability


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


def figure_bytes(figure: Figure) -> bytes:
    """Return the PNG file of a figure."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()
