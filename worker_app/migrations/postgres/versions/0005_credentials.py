"""Credentials: sealed secrets of organisations by version, and the key that their fingerprints are made with.

A version that is revoked stays for audit without its secret. `sources.credential_id` is no foreign key: it outlives versions.
New tables alone: an older program runs on.
"""

from alembic import op

revision = "0005"
down_revision = "0004"

TABLES = """
CREATE TABLE org_credentials (
  id uuid NOT NULL, version integer NOT NULL CHECK (version > 0), org_id uuid NOT NULL REFERENCES orgs (id),
  provider text NOT NULL CHECK (provider IN ('github', 'gitlab', 'jira', 'linear', 'git')), host text NOT NULL,
  name text NOT NULL, kind text NOT NULL, key_id text NOT NULL, wrapped_dek bytea NOT NULL, ciphertext bytea NOT NULL,
  fingerprint bytea NOT NULL,
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'superseded', 'revoked')),
  created_by text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), last_used_at timestamptz, revoked_at timestamptz,
  PRIMARY KEY (id, version), CHECK ((state = 'revoked') = (revoked_at IS NOT NULL)),
  CHECK (state <> 'revoked' OR (wrapped_dek = '' AND ciphertext = '')));
CREATE UNIQUE INDEX org_credentials_current ON org_credentials (org_id, provider, host, name) WHERE state = 'active';
CREATE INDEX org_credentials_key ON org_credentials (key_id);

CREATE TABLE vault_keys (purpose text PRIMARY KEY, key_id text NOT NULL, wrapped bytea NOT NULL);
"""


def upgrade() -> None:
    """Create the tables."""
    op.execute(TABLES)


def downgrade() -> None:
    """Drop them, for the up-down-up test on an empty database."""
    op.execute("DROP TABLE vault_keys, org_credentials")
