"""`gfn4rec policy`: list, show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.output import JsonOption, out, print_json, table

if TYPE_CHECKING:
    from gfn4rec.config import Setting

app = typer.Typer(help="List policies (models that choose slates) and their settings.", no_args_is_help=True)


@app.command("list", epilog="Example: gfn4rec policy list")
def list_command(as_json: JsonOption = False) -> None:
    """List the policies, one per line."""
    from gfn4rec.policies import POLICIES

    if as_json:
        print_json({name: policy.description for name, policy in POLICIES.items()})
        return
    lines = table("", "")
    for name, policy in POLICIES.items():
        lines.add_row(name, policy.description)
    out().print(lines)


@app.command("show", epilog="Example: gfn4rec policy show gfn")
def show_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `gfn4rec policy list`.")],
    as_json: JsonOption = False,
) -> None:
    """Show the settings of a policy, each with its key, default and meaning."""
    from gfn4rec.config import describe_settings
    from gfn4rec.policies import policy_class

    policy = policy_class(name)
    settings = describe_settings(policy.Config())
    if as_json:
        by_key = {setting.key: {"default": setting.default, "meaning": setting.meaning} for setting in settings}
        print_json({"name": name, "description": policy.description, "settings": by_key})
        return
    out().print(f"{name}: {policy.description}", style="bold")
    print_settings(settings)


def print_settings(settings: Sequence["Setting"]) -> None:
    """Print settings, one per line: key, default, meaning."""
    lines = table("", "", "")
    for setting in settings:
        lines.add_row(f"  {setting.key}", str(setting.default), setting.meaning)
    if settings:
        out().print(lines)
