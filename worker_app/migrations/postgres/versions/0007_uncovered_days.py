"""The days whose metrics were computed before all their sources had been read to the end of them, whichever store keeps metrics.

A new table alone: an older program runs on, and finds such days in metric_daily.
"""

from alembic import op

revision = "0007"
down_revision = "0006"

TABLE = """
CREATE TABLE uncovered_days (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, day date NOT NULL, PRIMARY KEY (org_id, day));
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(TABLE)


def downgrade() -> None:
    """Drop it, for the up-down-up test on an empty database."""
    op.execute("DROP TABLE uncovered_days")
