"""What commands print."""

import time

import pytest

from gfn4rec.cli.output import Pace, out, table, time_left


def test_a_wide_table_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [f"a long title {number}" for number in range(40)]
    shown = table(*columns)
    shown.add_row(*(f"{number}.123456" for number in range(40)))
    out().print(shown)
    titles, figures = capsys.readouterr().out.splitlines()
    assert all(column in titles for column in columns)
    assert figures.split() == [f"{number}.123456" for number in range(40)]


def test_on_a_narrow_terminal_no_figure_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    shown = table(*(f"t{number}" for number in range(8)))
    shown.add_row(*("123456789" for _ in range(8)))
    out().print(shown)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert sum(character in "123456789" for line in printed.splitlines()[1:] for character in line) == 8 * 9


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (99.4, ", about 99 s left"),
        (150.0, ", about 2 min left"),
        (5900.0, ", about 98 min left"),
        (9000.0, ", about 2.5 hours left"),
    ],
)
def test_time_left(seconds: float | None, words: str) -> None:
    assert time_left(seconds) == words


def test_what_was_known_before_says_nothing_about_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace = Pace()
    assert pace.seconds_left(40, 100) is None
    now += 30
    assert pace.seconds_left(40, 100) is None
    assert pace.seconds_left(50, 100) == 150.0
    now += 30
    assert pace.seconds_left(100, 100) == 0.0
