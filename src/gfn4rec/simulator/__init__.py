"""Simulated users: a response model, item influence, an environment, and oracles that see the true probabilities."""
