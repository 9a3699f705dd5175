"""What commands print."""

import pytest

from gfn4rec.cli.output import out, table


def test_a_wide_table_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [f"a long title {number}" for number in range(40)]
    shown = table(*columns)
    shown.add_row(*(f"{number}.123456" for number in range(40)))
    out().print(shown)
    titles, numbers = capsys.readouterr().out.splitlines()
    assert all(column in titles for column in columns)
    assert numbers.split() == [f"{number}.123456" for number in range(40)]


def test_on_a_narrow_terminal_no_number_is_cut(
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
