"""The options that name a decoder and its settings."""

from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.decoders.base import Decoder

DecoderOption = Annotated[
    str | None,
    typer.Option(
        "--decoder",
        metavar="NAME",
        help="Make slates from the policy with mmr, dpp, best-of-n or local-search (docs/decoders.md).",
    ),
]
DecoderSetOption = Annotated[
    list[str] | None,
    typer.Option("--decoder-set", metavar="KEY=VALUE", help="Change a setting of the decoder; repeatable."),
]


def chosen_decoder(name: str | None, changes: list[str] | None) -> "Decoder | None":
    """Return the decoder that the options name."""
    from gfn4rec.decoders import build_decoder
    from gfn4rec.training.config import parse_change

    if name is None:
        if changes:
            raise UserError(f"--decoder-set {changes[0]}: there is no decoder; name one with --decoder")
        return None
    return build_decoder(name, dict(parse_change(text, "--decoder-set") for text in changes or ()))
