"""Encoders of items, users and requests, and scoring of large catalogues, shared by the simulator and the policies."""
