"""Help pages without Typer's type names: flags have no value, and values are called N, X or TEXT."""

import inspect
import re
from collections.abc import Sequence
from typing import Any, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_METAVARS = {bool: "", int: "N", float: "X", str: "TEXT"}


class PlainCommand(TyperCommand):
    """A command with a plain help page.

    Paragraphs of its docstring are filled to the width of the terminal, except those that begin with a line `\\b`.
    """

    def __init__(self, *arguments: Any, help: str | None = None, **settings: Any) -> None:  # noqa: A002
        text = None if help is None else "\n\n".join(map(_fill, inspect.cleandoc(help).split("\n\n")))
        super().__init__(*arguments, help=text, **settings)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments, with plain names of their values."""
        return _plain(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, required arguments without braces."""
        return [re.sub(r"[{}]|\.\.\.}", "", piece) for piece in super().collect_usage_pieces(ctx)]


class PlainGroup(TyperGroup):
    """A group of commands with a plain help page."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, with plain names of their values."""
        return _plain(super().get_params(ctx))


class MainGroup(PlainGroup):
    """All commands, in the order in which they are used."""

    order: Sequence[str] = (
        "data",
        "simulator",
        "policy",
        "train",
        "evaluate",
        "recommend",
        "score",
        "search",
        "reproduce",
    )

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: self.order.index(name) if name in self.order else len(self.order))


def use_plain_help(app: typer.Typer, group: type[TyperGroup] = PlainGroup) -> None:
    """Give all commands of an app, and of the apps in it, plain help pages."""
    app.info.cls = group
    for command in app.registered_commands:
        command.cls = PlainCommand
    for inner in app.registered_groups:
        if inner.typer_instance is not None:
            use_plain_help(inner.typer_instance)


def _fill(paragraph: str) -> str:
    return paragraph.removeprefix("\b\n") if paragraph.startswith("\b") else paragraph.replace("\n", " ")


def _plain(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = _no_type  # type: ignore[method-assign]
        elif isinstance(parameter, TyperOption) and parameter.metavar is None:
            annotation = parameter.type_descriptor.annotation
            parameter.metavar = _METAVARS.get(next(iter(get_args(annotation)), annotation))
    return parameters


def _no_type(ctx: Any) -> None:  # noqa: ARG001 - Typer passes it by this name
    return None
