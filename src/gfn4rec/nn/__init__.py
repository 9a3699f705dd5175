"""Encoders of items, users and requests, shared by the simulator and by every policy."""
