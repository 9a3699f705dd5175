import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection, LineCollection

from gfn4rec.experiments.report.picture import Picture
from gfn4rec.experiments.report.plots import Curve, Point, plot_curves, plot_frontier, plot_sensitivity

CURVES: dict[str, list[Curve]] = {
    "one": [
        [(0, {"reward": 0.0, "ild": 0.8}), (100, {"reward": 1.0, "ild": 0.5})],
        [(0, {"reward": 2.0, "ild": 0.6}), (100, {"reward": 4.0, "ild": 0.5}), (200, {"reward": 9.0})],
    ],
    "other": [[(0, {"reward": 1.0}), (100, {"reward": 1.5})]],
}


def curves() -> Picture:
    return plot_curves(CURVES, {"reward": "average reward", "ild": "ILD & more"})


def frontier() -> Picture:
    policies = {"one": [Point([30, 50], [1.0, 2.0]), Point([10], [2.5])]}
    return plot_frontier(policies, [Point([5], [3.0]), Point([100], [1.0])])


def points(axis: Axes, label: str) -> list[list[float]]:
    (line,) = [line for line in axis.lines if line.get_label() == label]
    return [[float(x), float(y)] for x, y in np.asarray(line.get_xydata())]


def test_a_curve_is_the_mean_of_its_seeds_at_steps_all_reached() -> None:
    reward, ild = curves().figure().axes
    assert points(reward, "one") == [[0, 1], [100, 2.5]]
    assert points(reward, "other") == [[0, 1], [100, 1.5]]
    assert np.allclose(points(ild, "one"), [[0, 0.7], [100, 0.5]])
    assert [line.get_label() for line in ild.lines] == ["one"]  # the other has not measured it
    assert [axis.get_title(loc="left") for axis in (reward, ild)] == ["average reward", "ILD & more"]


def test_the_band_is_the_range_of_the_seeds() -> None:
    (band,) = curves().figure().axes[0].collections  # one seed alone has none
    assert isinstance(band, FillBetweenPolyCollection)
    corners = {tuple(corner) for corner in np.asarray(band.get_paths()[0].vertices).tolist()}
    assert corners == {(0, 0), (0, 2), (100, 1), (100, 4)}


def test_the_frontier_is_sorted_and_has_bars_of_a_deviation() -> None:
    (axis,) = frontier().figure().axes
    assert points(axis, "one") == [[10, 2.5], [40, 1.5]]
    assert points(axis, "oracle") == [[5, 3], [100, 1]]
    *_, across, upright = [lines for lines in axis.collections if isinstance(lines, LineCollection)]
    wide, high = np.asarray(across.get_segments()[1]), np.asarray(upright.get_segments()[1])
    assert wide.tolist() == [[pytest.approx(40 - 200**0.5), 1.5], [pytest.approx(40 + 200**0.5), 1.5]]
    assert high.tolist() == [[40, pytest.approx(1.5 - 0.5**0.5)], [40, pytest.approx(1.5 + 0.5**0.5)]]


def test_sensitivity_shows_ours_and_the_papers() -> None:
    picture = plot_sensitivity(
        "alpha", [1, 2], {"reward": [[1, 2], [5, 7]], "ILD": [[0.6], [0.5]]}, {"reward": [(1, 1.25), (2, 6.5)]}
    )
    reward, ild = picture.figure().axes
    assert points(reward, "ours") == [[1, 1.5], [2, 6]]
    assert points(reward, "paper") == [[1, 1.25], [2, 6.5]]
    assert [line.get_label() for line in ild.lines] == ["ours"]
    assert reward.get_xlabel() == "alpha"


def test_what_is_flat_looks_flat() -> None:
    flat, steep = plot_sensitivity("alpha", [1, 2], {"one": [[2.0], [2.02]], "other": [[2.0], [4.0]]}).figure().axes
    assert flat.get_ylim() == pytest.approx((2.01 * 0.95, 2.01 * 1.05))
    low, high = steep.get_ylim()
    assert low == pytest.approx(2.0 - 0.05 * 2)  # as matplotlib has it
    assert high == pytest.approx(4.0 + 0.05 * 2)


def test_series_differ_by_colour_then_by_dashes() -> None:
    many: dict[str, list[Curve]] = {f"policy {n}": [[(0, {"reward": n})]] for n in range(9)}
    (axis,) = plot_curves(many, {"reward": "reward"}).figure().axes
    assert len({(line.get_color(), line.get_linestyle()) for line in axis.lines}) == 9


def test_the_legend_covers_no_panel() -> None:
    figure = curves().figure()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "other"]
    boxes = [axis.get_tightbbox() for axis in figure.axes]
    assert not any(box is None or legend.get_window_extent().overlaps(box) for box in boxes)


def elements(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(f"<page>{svg}</page>"))


def test_svg_is_a_legend_and_panels_with_words_for_those_who_do_not_see() -> None:
    labels = [element.get("aria-label") for element in elements(curves().svg("curves"))]
    assert labels == ["Legend: one, other", "average reward", "ILD & more"]
    alone = plot_curves({"one": CURVES["one"]}, {"reward": "reward"}).svg("curves")
    assert [element.get("aria-label") for element in elements(alone)] == ["reward"]


def test_ids_of_a_page_are_each_one_elements_own() -> None:
    page = curves().svg("first") + curves().svg("second") + frontier().svg("third")
    ids = [element.get("id") for element in ET.fromstring(f"<page>{page}</page>").iter() if element.get("id")]
    assert len(ids) == len(set(ids)) > 20
    used = re.findall(r"url\(#([^)]+)\)", page) + re.findall(r'href="#([^"]+)"', page)
    assert used
    assert set(used) <= set(ids)


def test_the_same_bytes_twice() -> None:
    assert curves().svg("curves") == curves().svg("curves")
    assert curves().png() == curves().png()
    assert curves().png().startswith(b"\x89PNG")
