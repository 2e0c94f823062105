"""Indexes on tables that are in use: built while rows are written, and built anew where an earlier try was cut off."""

from alembic import op

# Waiting here keeps no reader and no writer waiting, only other schema changes; two seconds would start long builds anew.
LOCK_TIMEOUT = "5min"
STATEMENT_TIMEOUT = "4h"


def build(name: str, definition: str, *, is_unique: bool = False) -> None:
    """Build index `name`; `definition` is what stands after ON. Call it last in a revision that does nothing else.

    A build that fails leaves an index that costs every writer and serves nobody, hence the DROP before it.
    Page: https://www.postgresql.org/docs/current/sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY
    """
    kind = "UNIQUE INDEX" if is_unique else "INDEX"
    with op.get_context().autocommit_block():
        op.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        op.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.execute(f"CREATE {kind} CONCURRENTLY {name} ON {definition}")
