"""The search for settings."""
