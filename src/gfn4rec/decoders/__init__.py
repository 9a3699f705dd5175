"""Decoders make slates from any policy in other ways than drawing them. `DECODERS` is the table of them."""

from collections.abc import Mapping
from typing import Final

from gfn4rec.config import nearest
from gfn4rec.decoders.base import Decoder, DecoderConfig
from gfn4rec.decoders.best_of_n import BestOfN
from gfn4rec.decoders.dpp import DPP
from gfn4rec.decoders.local_search import LocalSearch
from gfn4rec.decoders.mmr import MMR
from gfn4rec.errors import UserError

DECODERS: Final[Mapping[str, type[Decoder]]] = {decoder.name: decoder for decoder in (MMR, DPP, BestOfN, LocalSearch)}


def decoder_class(name: str) -> type[Decoder]:
    """Return the class of the decoder with this name."""
    if name not in DECODERS:
        raise UserError(f"no decoder {name!r}; {nearest(name, list(DECODERS))}")
    return DECODERS[name]


def build_decoder(name: str, config: DecoderConfig | Mapping[str, object] | None = None) -> Decoder:
    """Return a decoder; `config` may be a mapping of settings.

    >>> build_decoder("best-of-n", {"num_slates": 4}).as_dict()
    {'name': 'best-of-n', 'settings': {'num_slates': 4}}
    """
    decoder = decoder_class(name)
    if not isinstance(config, DecoderConfig):
        config = decoder.Config.parse(dict(config or {}), f"decoder {name}")
    return decoder(config)
