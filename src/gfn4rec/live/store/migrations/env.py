"""Alembic's entry point; `Store.open` hands it the connection."""

from alembic import context

from gfn4rec.live.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
