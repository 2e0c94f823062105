"""Reports: what was rendered for an organisation and a period of its days, for people and for programs.

A report outlives its schedule, so `scheduled_job_id` is no foreign key. A new table alone: an older program runs on.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

TABLES = """
CREATE TABLE report_outputs (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, id uuid NOT NULL, scheduled_job_id uuid,
  template text NOT NULL, period_from date NOT NULL, period_to date NOT NULL, body_markdown text NOT NULL, body jsonb NOT NULL,
  input_watermark timestamptz, rendered_at timestamptz NOT NULL, PRIMARY KEY (org_id, id));
CREATE INDEX report_outputs_newest ON report_outputs (org_id, rendered_at DESC, id);
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(TABLES)


def downgrade() -> None:
    """Drop it, for the up-down-up test on an empty database."""
    op.execute("DROP TABLE report_outputs")
