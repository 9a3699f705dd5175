"""The HTTP interface of the live service."""
