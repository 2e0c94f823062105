"""What a run was asked for, and how often it was opened again.

`params` is what its scheduled job said when the slot was served: a job that is edited or removed meanwhile changes no run.
`retries` tells the metrics run of a run's first end from the one after a retry. Constant defaults rewrite nothing.
"""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns."""
    op.execute("ALTER TABLE sync_runs ADD COLUMN params jsonb, ADD COLUMN retries integer NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Drop them, for the up-down-up test on an empty database."""
    op.execute("ALTER TABLE sync_runs DROP COLUMN retries, DROP COLUMN params")
