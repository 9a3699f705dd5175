"""Every row of docs/paper-map.md points at something that is there and runs."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from gfn4rec.cli import app
from gfn4rec.experiments.paper.reproductions import select
from gfn4rec.policies import POLICIES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")][2:]
WITHOUT_CODE = ("nothing to implement", "illustration", "background", "the same test")


def file_of(name: str, before: Path | None) -> Path | None:
    """A file of the package, of the project, or beside the one named before it."""
    beside = [] if before is None else [before.parent]
    return next((path for place in (ROOT / "src" / "gfn4rec", ROOT, *beside) if (path := place / name).exists()), None)


def check_command(words: list[str]) -> None:
    command = get_command(app)
    while subcommands := getattr(command, "commands", None):
        command = subcommands[words.pop(0)]
    options = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= options
    if command.name == "reproduce":
        assert select(words)
    if command.name == "search":
        assert words[0] in POLICIES or words[0].isupper()


@pytest.mark.parametrize(("where", "what", "here"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_row_points_at_something_that_runs(where: str, what: str, here: str) -> None:
    named = re.findall(r"`([^`]+)`(?: \(`([^`]+)`\))?", here)
    assert named or here.startswith(WITHOUT_CODE), f"{where}, {what}: {here}"
    before = None
    for name, symbol in named:
        if name.startswith("gfn4rec "):
            check_command(name.split()[1:])
        elif "/" in name or name.endswith(".py"):
            before = file_of(name, before)
            assert before is not None, f"{name} is not there"
            for part in symbol.split(".") if symbol else ():
                assert re.search(rf"(class|def) {part}\b|^    {part}:", before.read_text(encoding="utf-8"), re.M), (
                    symbol
                )
        elif name.startswith("--"):
            assert any(name in option for option in _all_options()), name


def _all_options() -> set[str]:
    found, commands = set[str](), [get_command(app)]
    while commands:
        command = commands.pop()
        found |= {option for each in command.params for option in each.opts}
        commands += getattr(command, "commands", {}).values()
    return found


def test_the_map_is_read() -> None:
    assert len(ROWS) > 40
    assert {"Table 1", "Table 2", "Table 3", "Table 4"} <= {row[0] for row in ROWS}
