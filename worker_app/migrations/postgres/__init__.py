"""The Postgres schema, one numbered Alembic revision a file."""
