"""Alembic's entry: runs the revisions on the connection that `worker_app.migrate` hands over, and on no other.

A transaction for each revision, begun here and not by the caller: inside a caller's, a revision that leaves it to build an
index concurrently would lose its version stamp. Without a connection the SQL is written out, for the lint.
"""

from alembic import context

connection = context.config.attributes.get("connection")
if context.is_offline_mode():
    context.configure(dialect_name="postgresql", transaction_per_migration=True)
else:
    context.configure(connection=connection, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
