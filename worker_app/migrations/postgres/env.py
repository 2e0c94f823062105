"""Alembic's entry: runs the revisions on the connection that `worker_app.migrate` hands over, and on no other."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True)
context.run_migrations()
