"""Listwise (slate) recommendation with generative flow networks."""

__version__ = "0.1.0"
