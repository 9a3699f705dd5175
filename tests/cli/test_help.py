"""Help pages of all commands."""

from collections.abc import Iterator

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from gfn4rec.cli import app
from tests.conftest import Cli


def commands(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of a group and of all commands in it."""
    yield words
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name)


def all_commands() -> list[tuple[str, ...]]:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return list(commands(command))


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_help_names_no_types(cli: Cli, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    result = cli(*words, "--help")
    assert result.code == 0
    assert f"Usage: {' '.join(('gfn4rec', *words))} [OPTIONS]" in result.out
    for noise in ("<bool>", "<str>", "<int", "<float", "<path>", "<list", "{", "......"):
        assert noise not in result.out


def test_flags_stand_alone_and_values_have_names(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    lines = [line.strip("│ ") for line in cli("evaluate", "--help").out.splitlines()]
    options = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("--")}
    assert options["--json"][0] == "Print"
    assert options["--help"][:2] == ["-h", "Show"]
    assert options["--batches"][:2] == ["N", "[x>=1]"]
    assert options["--temperature"][0] == "T,T,..."
    assert "Usage: gfn4rec evaluate [OPTIONS] RUN..." in lines


def test_commands_are_in_the_order_of_work(cli: Cli) -> None:
    out = cli("--help").out
    names = ("data ", "simulator ", "policy ", "train ", "evaluate ", "recommend ", "score ", "search ", "reproduce ")
    places = [out.index(f"│ {name}") for name in names]
    assert places == sorted(places)


def test_lists_keep_their_lines(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    text = cli("reproduce", "--help").out
    lines = [line.strip() for line in text.splitlines()]
    assert "online       models trained online (Table 2)" in lines
    assert "ablations     the energy GFN without one of its ideas" in lines
    assert "\b" not in text
    (before,) = [lines[index - 1] for index, line in enumerate(lines) if line.startswith("This project's own studies")]
    assert before == ""


def test_paragraphs_are_filled(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    lines = [line.strip() for line in cli("search", "--help").out.splitlines()]
    (line,) = [line for line in lines if line.startswith("A trial is a short training")]
    assert line.endswith("resumes the search.")
