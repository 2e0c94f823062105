"""How often a run was opened again: it tells the metrics run of its first end from the one after a retry."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; a constant default rewrites nothing."""
    op.execute("ALTER TABLE sync_runs ADD COLUMN retries integer NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Drop it, for the up-down-up test on an empty database."""
    op.execute("ALTER TABLE sync_runs DROP COLUMN retries")
