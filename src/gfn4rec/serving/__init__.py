"""A trained policy that answers requests."""
