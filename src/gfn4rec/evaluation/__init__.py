"""Measures of slates, and the protocols that take them."""
