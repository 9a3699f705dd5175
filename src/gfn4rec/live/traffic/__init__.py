"""Simulated users who speak HTTP: they ask a service for slates, respond to them, and send feedback."""
