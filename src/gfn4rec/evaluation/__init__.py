"""Metrics of slates, and the protocols that measure them."""
