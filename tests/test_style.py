"""Functions and files are short, values have types, and the words are those of the field."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from gfn4rec.cli import app

ROOT = Path(__file__).parents[1]
SOURCES = sorted(ROOT.glob("src/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/*.py"))
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]

MOST_FUNCTION_LINES = 40
MOST_FILE_LINES = 400
MOST_UNTYPED = 19
LOOPS = {"train_online", "train_offline"}  # readable from top to bottom, so they may be longer

UNTYPED = re.compile(r"\b(?:dict|Dict|Mapping|MutableMapping)\[str, Any\]")
ALIAS = re.compile(rf"^(?:type )?(\w+)(?:: \w+)? = {UNTYPED.pattern}", re.MULTILINE)
DIALECT = re.compile(
    r"\b(?:"
    r"rulers?(?!-)"  # an oracle; but the names of old files begin with `ruler-`
    r"|heeded|(?:gone|went|goes|going) on with|mended|anew"
    r"|of no size|beyond bounds|longest gradient|that (?:are|is) none|not finite numbers"
    r"|(?:is|are|was|be) told|told in one line|energy flows?|shelf|shelves"
    r"|(?:a|each|every|first|last|final) look|(?:its|this|each|every|a) world"
    r")\b",
    re.IGNORECASE,
)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def num_lines(node: ast.stmt) -> int:
    """Return the number of lines of a function; decorators stand above it and do not count."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def num_lines_after_options(command: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a command without its signature, which has the options, and its help."""
    code = command.body[1:] if ast.get_docstring(command) else command.body
    return (code[-1].end_lineno or 0) - code[0].lineno + 1 if code else 0


def command_names(commands: typer.Typer) -> set[str]:
    """Return the names of the functions that are registered as commands."""
    names = {command.callback.__name__ for command in commands.registered_commands if command.callback is not None}
    groups = [group.typer_instance for group in commands.registered_groups if group.typer_instance is not None]
    return names.union(*(command_names(group) for group in groups))


def long_functions(source: str, commands: set[str]) -> list[str]:
    long = []
    for function in functions(ast.parse(source)):
        lines = num_lines_after_options(function) if function.name in commands else num_lines(function)
        if lines > MOST_FUNCTION_LINES and function.name not in LOOPS:
            long.append(f"{function.name}: {lines} lines")
    return long


def untyped_dictionaries(sources: dict[str, str]) -> list[str]:
    """Return the places of `dict[str, Any]` and the like, and those where a name for such a type is used."""
    aliases = {name for source in sources.values() for name in ALIAS.findall(source)}
    places = []
    for path, source in sources.items():
        places += [f"{path}: {match[0]}" for match in UNTYPED.finditer(source)]
        names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
        places += [
            f"{path}:{name.lineno}: {name.id}"
            for name in names
            if name.id in aliases and isinstance(name.ctx, ast.Load)
        ]
    return places


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and other string literals of a module, with their line numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def dialect(text: str) -> list[str]:
    return [match[0] for match in DIALECT.finditer(" ".join(text.split()))]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_functions_are_short() -> None:
    commands = command_names(app)
    long = [
        f"{name(path)}: {function}"
        for path in SOURCES
        for function in long_functions(path.read_text(encoding="utf-8"), commands if "cli" in path.parts else set())
    ]
    assert long == []


def test_files_are_short() -> None:
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in [*SOURCES, *TESTS]}
    assert {path: count for path, count in lines.items() if count > MOST_FILE_LINES} == {}


def test_dictionaries_are_typed() -> None:
    places = untyped_dictionaries({name(path): path.read_text(encoding="utf-8") for path in SOURCES})
    assert len(places) <= MOST_UNTYPED, "\n".join(places)


def test_words_of_the_source_are_plain() -> None:
    words = [
        f"{name(path)}:{line}: {word}"
        for path in SOURCES
        for line, text in texts(path.read_text(encoding="utf-8"))
        for word in dialect(text)
    ]
    assert words == []


def test_words_of_the_docs_are_plain() -> None:
    words = [f"{name(page)}: {word}" for page in PAGES for word in dialect(page.read_text(encoding="utf-8"))]
    assert words == []


def test_long_functions_are_seen() -> None:
    body = "    pass\n" * 39
    assert long_functions(f"def short():\n{body}", set()) == []
    assert long_functions(f"@decorator\n\ndef long():\n{body}    pass\n", set()) == ["long: 41 lines"]
    assert long_functions(f"class A:\n  def train_online():\n{body}    pass\n", set()) == []
    command = (
        f'def run(\n    one: int,\n    two: int,\n) -> None:\n    """Help.\n\n    More help.\n    """\n{body}    pass\n'
    )
    assert long_functions(command, {"run"}) == []
    assert long_functions(f"{command}    pass\n", {"run"}) == ["run: 41 lines"]
    assert {"recommend_command", "online_command"} <= command_names(app)


def test_untyped_dictionaries_are_seen() -> None:
    one = "Info: TypeAlias = dict[str, Any]\ndef f(info: Info) -> dict[str, float]: ..."
    other = "def g(info: Info, values: Mapping[str, Any]) -> Mapping[str, object]: ..."
    assert len(untyped_dictionaries({"one.py": one, "other.py": other})) == 4


def test_dialect_is_seen() -> None:
    assert dialect("The ruler,\n  gone on\n  with, has numbers that are none.") == [
        "ruler",
        "gone on with",
        "that are none",
    ]
    assert dialect("A shelf of its own world; read ruler-3f.json") == ["shelf"]
    assert dialect("An oracle looks at the whole benchmark; feedback told apart.") == []
