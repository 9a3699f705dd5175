"""The report as a browser shows it: on a desk and on a telephone."""

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gfn4rec.experiments.report.report import render_report
from tests.chromium import BROWSER, FLAGS
from tests.experiments.report_example import example_report

WATCH = """<script>
const problems = [];
addEventListener("error", event => problems.push(event.message || "not loaded: " + event.target.outerHTML), true);
console.error = (...words) => problems.push(words.join(" "));
addEventListener("load", () => {
  const all = name => [...document.querySelectorAll(name)];
  const box = each => each.getBoundingClientRect();
  const shown = parent.document.createElement("pre");
  shown.textContent = JSON.stringify({
    problems,
    width: innerWidth,
    contents: document.documentElement.scrollWidth,
    plots: all("svg[role=img]").map(each => [box(each).width, box(each).height]),
    tables: all(".table").map(each => [each.clientWidth, each.scrollWidth]),
    columns: new Set(all("#figure-curves svg").map(each => box(each).x)).size,
    text: Math.min(...all("svg text").map(each => box(each).height)),
  });
  parent.document.body.append(shown);
});
</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser (chromium or google-chrome) is installed")


def render(page: str, directory: Path) -> dict[int, dict[str, Any]]:
    """Render a page in frames of two widths; return problems and layout by width."""
    watched = html.escape(page.replace("<head>", f"<head>{WATCH}", 1))
    # In frames, because a window is never as narrow as a telephone.
    frames = [f'<iframe srcdoc="{watched}" style="width: {width}px; border: 0"></iframe>' for width in (1280, 360)]
    path = directory / "frames.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><body>{"".join(frames)}', encoding="utf-8")
    places = [f"--user-data-dir={directory / 'browser'}", "--window-size=1800,900", "--dump-dom", path.as_uri()]
    done = subprocess.run([str(BROWSER), *FLAGS, *places], capture_output=True, text=True, timeout=120, check=True)
    seen = [json.loads(html.unescape(found)) for found in re.findall("<pre>(.*?)</pre>", done.stdout, re.DOTALL)]
    return {each["width"]: each for each in seen}


def test_the_page_fits_and_nothing_goes_wrong(tmp_path: Path) -> None:
    seen = render(render_report(example_report()), tmp_path)
    assert set(seen) == {1280, 360}
    for width, of_width in seen.items():
        assert of_width["problems"] == []
        assert of_width["contents"] <= width
        assert len(of_width["plots"]) == 6
        assert all(100 < across <= width and high > 10 for across, high in of_width["plots"])
        assert of_width["text"] > 8  # pixels: the smallest words of a plot
        visible, whole = of_width["tables"][1]
        assert visible < whole  # the wide table scrolls in its box
    assert (seen[1280]["columns"], seen[360]["columns"]) == (2, 1)


def test_what_goes_wrong_is_seen(tmp_path: Path) -> None:
    broken = '<img src="absent.png"><script>console.error("oh"); absent()</script><p style="min-width: 999px">wide</p>'
    seen = render(render_report(example_report()).replace("</main>", f"{broken}</main>"), tmp_path)
    assert [len(seen[width]["problems"]) for width in (1280, 360)] == [3, 3]
    assert seen[360]["contents"] > 360
