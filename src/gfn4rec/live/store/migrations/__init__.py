"""Alembic migrations, run when the service opens a store."""
