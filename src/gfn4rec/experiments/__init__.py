"""Experiments: many runs, found again instead of repeated, and the tables, plots and report made of them."""
