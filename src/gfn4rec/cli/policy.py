"""`gfn4rec policy`: what policies there are."""

from typing import Annotated, Any

import typer

from gfn4rec.cli.output import JsonOption, out, print_json, table

app = typer.Typer(help="Policies: what proposes slates.", no_args_is_help=True)


@app.command("list", epilog="Example: gfn4rec policy list gfn")
def list_command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One policy only.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Each policy with its settings: key, default, meaning."""
    from gfn4rec.config import describe_settings
    from gfn4rec.policies import POLICIES, policy_class

    names = list(POLICIES) if name is None else [name]
    settings = {each: describe_settings(policy_class(each).Config()) for each in names}
    if as_json:
        print_json({each: _as_dict(policy_class(each).description, settings[each]) for each in names})
        return
    for number, each in enumerate(names):
        if number:
            out().print()
        out().print(f"{each}: {policy_class(each).description}", style="bold")
        shown = table("", "", "")
        for setting in settings[each]:
            shown.add_row(f"  {setting.key}", str(setting.default), setting.meaning)
        if settings[each]:
            out().print(shown)


def _as_dict(description: str, settings: list[Any]) -> dict[str, Any]:
    return {
        "description": description,
        "settings": {each.key: {"default": each.default, "meaning": each.meaning} for each in settings},
    }
