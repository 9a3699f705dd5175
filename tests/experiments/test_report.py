import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from gfn4rec.experiments.report.report import Report, render_report
from tests.experiments.report_example import example_report

Attributes = list[tuple[str, str | None]]


class Page(HTMLParser):
    """What a reader's program finds in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.tags if found == tag]


@pytest.fixture(scope="module")
def text() -> str:
    return render_report(example_report())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_needs_nothing_but_itself(text: str, page: Page) -> None:
    links = page.values("src") + page.values("href") + page.values("xlink:href")
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org)", text)
    assert not page.of("script")


def test_all_that_was_given_is_there(text: str, page: Page) -> None:
    shown = "".join(page.texts)
    for words in (
        "Quick budget",
        "Online learning",
        "As in table 2.",
        "CF differs.",
        "The reward's floor",
        "User 42",
        "3.11",
    ):
        assert words in shown
    assert len(page.of("table")) == 3
    assert len(page.of("figure")) == 3
    assert "2.094 ± 0.021" in shown
    assert Page(render_report(Report("Bare", "nothing yet"))).of("h2")
    assert 'class="notice"' in text
    assert 'class="notice"' not in render_report(Report("Bare", "nothing yet"))


def test_words_stay_words(text: str, page: Page) -> None:
    assert "<title>Measured &lt;again&gt;</title>" in text
    assert "&lt;b&gt;Fargo&lt;/b&gt;" in text
    assert "<b>" not in text
    assert "The paper's tables & figures" in page.texts


def test_links_lead_to_places_that_are_there_once(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in page.values("href") if link.startswith("#")} <= set(ids)
    assert {
        "section-online",
        "section-diversity",
        "section-examples",
        "environment",
        "table-online-table",
        "figure-curves",
    } <= set(ids)


def test_the_page_can_be_heard(page: Page) -> None:
    assert page.of("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(svg.get("role") == "img" and svg.get("aria-label") for svg in page.of("svg"))
    assert all("scope" in heading for heading in page.of("th"))
    assert len(page.of("caption")) == 2
    assert len(page.of("figcaption")) == 3


def test_tables_plots_and_report_do_without_torch() -> None:
    modules = "gfn4rec.experiments.report.report, gfn4rec.experiments.report.plots"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
