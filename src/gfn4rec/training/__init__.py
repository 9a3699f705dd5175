"""The loops that learn. Nothing outside this room takes an optimiser's step."""
