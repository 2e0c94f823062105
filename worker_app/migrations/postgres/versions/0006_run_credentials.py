"""The credentials of a run: which version of each it was planned with, so that all its batches use the same one.

A new table alone: an older program runs on, and plans runs without it.
"""

from alembic import op

revision = "0006"
down_revision = "0005"

TABLE = """
CREATE TABLE run_credentials (
  run_id uuid NOT NULL REFERENCES sync_runs (id) ON DELETE CASCADE, credential_id uuid NOT NULL,
  version integer NOT NULL CHECK (version > 0), fingerprint bytea NOT NULL, PRIMARY KEY (run_id, credential_id));
CREATE INDEX run_credentials_version ON run_credentials (credential_id, version);
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(TABLE)


def downgrade() -> None:
    """Drop it, for the up-down-up test on an empty database."""
    op.execute("DROP TABLE run_credentials")
