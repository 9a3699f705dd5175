"""`docs/data.md` cannot rot: its logs, commands, Python, results and tables are taken from the page and tried."""

import contextlib
import io
import random
import re
import shlex
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

from gfn4rec import SlateData
from gfn4rec.cli import app, main
from gfn4rec.cli.data_printing import print_summary
from gfn4rec.data.describe import summarise
from gfn4rec.data.readers.own import OwnData
from gfn4rec.data.readers.responses import parse_behaviour
from gfn4rec.data.storage import read_manifest
from tests.cli.test_help import all_commands
from tests.conftest import REPOSITORY, Cli

PAGE = (REPOSITORY / "docs" / "data.md").read_text(encoding="utf-8")
NUM_USERS, NUM_ITEMS, LENGTH, VISIT = 30, 40, 30, 10  # of expanded logs; each user has 30 of 40 items, in three visits
TINY = ("--core", "1", "--slate-size", "2", "--test-slates", "0", "--val-slates", "0")
TINY_CONFIG = "PrepareConfig(core=1, slate_size=2, test_slates=0, val_slates=0)"

Row = tuple[str, ...]


def blocks(text: str) -> list[tuple[str, str]]:
    """The language and the content of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def table(text: str, header: str) -> list[Row]:
    """The rows of the table whose header line begins so, without their back quotes."""
    lines = text[text.index(f"\n| {header}") :].strip().splitlines()
    rows = [line for number, line in enumerate(lines) if all(row.startswith("|") for row in lines[: number + 1])]
    return [tuple(cell.strip(" `") for cell in re.split(r"(?<!\\)\|", row)[1:-1]) for row in (rows[0], *rows[2:])]


def commands(text: str) -> list[list[str]]:
    """The words of each command of a block, without `gfn4rec`."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("gfn4rec ")]


def first(pattern: str, text: str) -> str:
    """The first group of the first match."""
    return str(re.findall(pattern, text)[0])


def write(path: Path, rows: Sequence[Sequence[object]], separator: str = ",") -> None:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))


@dataclass(frozen=True)
class Recipe:
    """A recipe of the page: a log with its header, what is done with it, and what becomes of its rows."""

    title: str
    log: tuple[Row, ...]
    code: str
    result: list[Row]

    @property
    def folder(self) -> str:
        """Where the data set is written."""
        return first(r'(?:--out |out=")([\w/]+)', self.code)

    @property
    def meanings(self) -> dict[str, str]:
        """What columns hold that are no responses, as far as the code says it."""
        named = re.findall(r'\b(user|item|time|slate|position|propensity|session)(?:-column |=")(\w+)', self.code)
        return {name: meaning for meaning, name in named}

    def write(self, folder: Path, rows: Sequence[Row]) -> None:
        """Write the log where the code reads it."""
        if "sqlite3" in self.code:
            with contextlib.closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
                connection.execute(f"CREATE TABLE orders ({', '.join(rows[0])})")
                typed = [[int(value) if value.isdigit() else value for value in row] for row in rows[1:]]
                connection.executemany(f"INSERT INTO orders VALUES ({', '.join('?' * len(rows[0]))})", typed)
            return
        write(folder / first(r'(?:prepare |read_csv\(")([\w.]+)', self.code), rows)

    def expanded(self) -> list[Row]:
        """The header, and a log with the same columns and more users, items and rows; responses are drawn."""
        header, *examples = self.log
        draw, rows = random.Random(0), [header]
        for number in range(NUM_USERS * LENGTH * (2 if "--merge-events" in self.code else 1)):
            user, place = number // LENGTH % NUM_USERS, number % LENGTH
            ids = {"user": 10 + user, "item": 10 + (user + place) % NUM_ITEMS, "slate": 1000 + number // 6}
            row = []
            for column, values in zip(header, zip(*examples, strict=True), strict=True):
                meaning = self.meanings.get(column, column)
                if meaning in ids:
                    row.append(f"{values[0]}{ids[meaning]}")
                elif meaning == "time":
                    row.append(later(values[0], 60 * place + 86400 * (place // VISIT)))
                else:
                    row.append(str(place % 6 + 1) if meaning == "position" else draw.choice(values))
            rows.append(tuple(row))
        return rows


def later(time: str, seconds: int) -> str:
    return (
        str(int(time) + seconds) if time.isdigit() else str(datetime.fromisoformat(time) + timedelta(seconds=seconds))
    )


def recipes() -> Iterator[Recipe]:
    for section in re.findall(r"^### .*?(?=^##)", PAGE[: PAGE.index("\n## Reference")] + "\n##", re.M | re.S):
        (log_language, log), (_, code), *_ = blocks(section)
        assert log_language == "csv"
        rows = tuple(tuple(line.split(",")) for line in log.splitlines())
        yield Recipe(section.splitlines()[0].removeprefix("### "), rows, code, table(section, "user |"))


RECIPES = list(recipes())
by_title = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)


def run(code: str, tiny: bool = False) -> None:
    """Run the commands or the Python of a block in the current folder; tiny logs need tiny settings."""
    if not code.startswith("gfn4rec"):
        code = re.sub(r"PrepareConfig\(.*?\)", TINY_CONFIG, code) if tiny else code
        exec(code, {"user": np.zeros(1, int), "progress": np.zeros(1), "slate": np.arange(6)[None]})
        return
    for words in commands(code):
        smaller = [*TINY, *(["--negatives", "1"] if "--negatives" in words else [])]
        assert main([*words, *(smaller if tiny and words[1] == "prepare" else [])]) == 0, words


def write_other_files(folder: Path) -> None:
    """Write what the other commands of the page read."""
    ratings = [(user, item, 1 + (user + item) % 5, 10**9 + item) for user in range(20) for item in range(30)]
    write(folder / "u.data", ratings, "\t")
    names = ("user_id:token", "item_id:token", "rating:float", "timestamp:float", "bought:float")
    write(folder / "shop.inter", [names, *((*row, row[1] % 2) for row in ratings)], "\t")
    header, *rows = next(recipe for recipe in RECIPES if "is_click" in recipe.code).expanded()
    for month, part in (("january", rows[: len(rows) // 2]), ("february", rows[len(rows) // 2 :])):
        write(folder / f"{month}.csv", [header, *part])
    videos = sorted({row[1] for row in rows})
    texts = {"video": videos, "name": videos, "category": videos, "tags": ["a|b"] * len(videos)}
    pl.DataFrame(texts).with_columns(price_eur=0.5).write_parquet(folder / "videos.parquet")
    write(folder / "users.csv", [("uid", "country"), *((user, "is") for user in sorted({row[0] for row in rows}))])
    (folder / "mine.toml").write_text(dict(blocks(PAGE))["toml"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every command and all Python of the page ran, on expanded logs."""
    folder = tmp_path_factory.mktemp("page")
    write_other_files(folder)
    for recipe in RECIPES:
        recipe.write(folder, recipe.expanded())
    with contextlib.chdir(folder):
        for language, text in blocks(PAGE):
            if language == "python" or text.startswith("gfn4rec"):
                run(text)
    return folder


def test_all_recipes_are_read() -> None:
    titles = set(re.findall(r"^### (.*)", PAGE[: PAGE.index("\n## Reference")], re.MULTILINE))
    assert {recipe.title for recipe in RECIPES} == titles
    assert len(titles) == 8
    assert all(len(recipe.log) == 4 for recipe in RECIPES)


@by_title
def test_the_rows_become_what_the_page_says(recipe: Recipe, tmp_path: Path) -> None:
    recipe.write(tmp_path, recipe.log)
    with contextlib.chdir(tmp_path):
        run(recipe.code, tiny=True)
    header, *rows = recipe.result
    log = SlateData.open(tmp_path / recipe.folder).interactions().log
    sessions = pl.read_parquet(
        tmp_path / recipe.folder / "log.parquet", columns=["session"] if "session" in header else []
    )
    log = log.with_columns(sessions).select(header)
    shown = [tuple(value if isinstance(value, str) else f"{float(value):g}" for value in row) for row in log.rows()]
    assert shown == rows


@by_title
def test_a_recipe_works_with_the_numbers_that_it_gives(recipe: Recipe, folder: Path) -> None:
    manifest = read_manifest(folder / recipe.folder)
    counts = manifest.statistics
    assert (counts.users, counts.items, counts.rows) == (NUM_USERS, NUM_ITEMS, NUM_USERS * LENGTH)
    assert counts.test_slates == NUM_USERS
    assert summarise(manifest).warnings == ()


def test_the_statistics_are_those_that_are_printed(folder: Path) -> None:
    printed = io.StringIO()
    for path in (folder / "data").iterdir():
        print_summary(Console(file=printed, width=200), summarise(read_manifest(path)))
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    for label, _ in table(PAGE, "line |")[1:]:
        pattern = re.sub(r"\d+", r"\\d+", re.escape(label)) + r"(  .*)?"
        assert any(re.fullmatch(pattern, line) for line in lines), label


def test_inspect_prints_the_command_of_the_page(folder: Path, cli: Cli) -> None:
    (shown,) = [text.splitlines() for _, text in blocks(PAGE) if text.startswith("u.data: text")]
    with contextlib.chdir(folder):
        printed = cli("data", "inspect", "u.data").out.splitlines()
    assert printed[0] == shown[0]
    assert printed[-1] == shown[-1]
    with contextlib.chdir(folder):
        assert cli(*commands(shown[-1])[0]).code == 0


def test_inspect_prints_what_the_page_says_of_movielens(
    real_data: Callable[[str], Path], cli: Cli, tmp_path: Path
) -> None:
    _, *lines = (real_data("ml-100k") / "ml-100k.inter").read_text().splitlines(keepends=True)
    (tmp_path / "u.data").write_text("".join(lines))
    (shown,) = [text.splitlines() for _, text in blocks(PAGE) if text.startswith("u.data: text")]
    with contextlib.chdir(tmp_path):
        printed = [line.rstrip() for line in cli("data", "inspect", "u.data").out.splitlines()]
    omitted = shown.index("...")
    assert printed[:omitted] == shown[:omitted]
    assert printed[-1] == shown[-1]


def test_responses_and_comments_of_the_description_are_valid() -> None:
    examples = [example.strip('"') for example, _ in table(PAGE, "response |")[1:]]
    assert len(examples) == 5
    assert {parse_behaviour(example)[0] for example in examples} == {"click", "like", "buy"}
    text = re.sub(r"^# (\w+ = )", r"\1", dict(blocks(PAGE))["toml"], flags=re.MULTILINE)
    description = OwnData.parse(tomllib.loads(text), "data.md")
    assert (description.rho, description.log.propensity, description.log.sheet) == (0.2, "probability", "January")


def test_options_of_the_page_exist() -> None:
    known = {name for words in all_commands() for name in options(words)}
    assert {*re.findall(r"--[a-z][a-z-]+", PAGE)} <= known


def options(words: tuple[str, ...]) -> list[str]:
    """The options of a command."""
    command = get_command(app)
    for word in words:
        assert isinstance(command, TyperGroup)
        command = command.commands[word]
    return [name for parameter in command.params for name in parameter.opts]
