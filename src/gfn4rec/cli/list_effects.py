"""The option `--effect` of commands that make simulators."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gfn4rec.simulator.effects import ListEffects

EffectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--effect",
        metavar="KEY=VALUE",
        help="A list effect of the simulated users: saturation, complements, position_decay, cascade or category "
        "(docs/simulator.md). Repeat it for several; default: none.",
    ),
]


def read_effects(texts: list[str] | None) -> "ListEffects":
    """Return the list effects that are given as `key=value`."""
    from gfn4rec.simulator.effects import ListEffects
    from gfn4rec.training.config import parse_change

    return ListEffects.parse(dict(parse_change(text, "--effect") for text in texts or ()), "--effect")
