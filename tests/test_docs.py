"""Links in the docs point to files and headings that exist; lines of hand-written Markdown are short."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GENERATED = sorted([*ROOT.glob("docs/results/*/README.md"), *ROOT.glob("docs/results/*/tables/*.md")])
WRITTEN = [page for page in PAGES if page not in GENERATED]
LONGEST_LINE = 120
MOST_NUMBERS = 2  # in a table cell of docs/results
NUMBER = re.compile(r"(?<![\w.-])[+-]?\d[\d,]*(?:\.\d+)?")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def lines_outside_code(text: str) -> Iterator[tuple[int, str]]:
    """Each line that is not in a code block, with its number."""
    is_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def links(text: str) -> list[str]:
    """Targets of links and images, without those in code; the text of a link may span lines."""
    prose = "\n".join(line for _, line in lines_outside_code(text))
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose))


def anchors(text: str) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    headings = [line.lstrip("#") for _, line in lines_outside_code(text) if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Relative links to files that do not exist, or to headings that a page does not have."""
    broken = []
    for link in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


def long_lines(text: str) -> list[int]:
    return [
        number
        for number, line in lines_outside_code(text)
        if len(line) > LONGEST_LINE and not line.lstrip().startswith("|")
    ]


def crowded_cells(text: str) -> list[str]:
    """Table cells with many numbers; those in code and in targets of links do not count."""
    cells = [
        cell for _, line in lines_outside_code(text) if line.startswith("|") for cell in line.strip("| ").split(" | ")
    ]
    return [cell for cell in cells if len(NUMBER.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", cell))) > MOST_NUMBERS]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_point_to_something(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_lines_are_short(page: Path) -> None:
    assert long_lines(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [page for page in WRITTEN if page.parent.name == "results"], ids=name)
def test_tables_of_results_are_readable(page: Path) -> None:
    assert crowded_cells(page.read_text(encoding="utf-8")) == []


def test_pages_are_found() -> None:
    assert {"README.md", "docs/training.md", "docs/results/README.md"} <= {name(page) for page in WRITTEN}
    assert {"docs/results/ml-1m/README.md", "docs/results/ml-1m/tables/online.md"} <= {name(page) for page in GENERATED}


def test_broken_links_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n[here](#one) [gone](#two) [this\npage](page.md#one) [no\nfile](gone.md) ![no plot](gone.png)\n"
        "`[code](not-a-link)`\n"
        "```\n[code](not-a-link)\n```\n[web](https://example.org/gone)\n"
    )
    assert broken_links(page) == ["#two", "gone.md", "gone.png"]


def test_headings_are_named_as_on_github() -> None:
    text = "# The paper's claims\n```\n# a comment\n```\n## Online learning (Table 2)\n"
    assert anchors(text) == {"the-papers-claims", "online-learning-table-2"}


def test_long_lines_and_crowded_cells_are_seen() -> None:
    text = "a" * 121 + "\n" + "b" * 120 + "\n| " + "c" * 130 + " |\n```\n" + "d" * 130 + "\n```\n" + "e " * 61 + "\n"
    assert long_lines(text) == [1, 7]
    assert crowded_cells("| 2.0 ± 0.1 | 2.0 ± 0.1 @ 12 | `1 2 3` [page](1-2-3.md) |\n") == ["2.0 ± 0.1 @ 12"]
