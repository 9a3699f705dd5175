"""The durable store of the live service: SQLite or PostgreSQL."""
