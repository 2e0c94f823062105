"""Code hosts: pull requests, reviews, issues, pipeline runs and deployments, the names a source had, datasets switched off.

A record's key is its organisation, provider, host and identity; the source that brought it last is no part of it. Indexes
by time are those by which metrics find the rows of a day. New tables and columns that may be empty alone: an older program
runs on.
"""

from alembic import op

revision = "0004"
down_revision = "0003"

TABLES = """
ALTER TABLE sync_cursors ADD COLUMN state_since timestamptz, ADD COLUMN asked_at timestamptz;

CREATE TABLE source_names (
  org_id uuid NOT NULL, source_id uuid NOT NULL, external_name text NOT NULL, seen_from timestamptz NOT NULL,
  seen_to timestamptz NOT NULL, PRIMARY KEY (org_id, source_id, external_name, seen_from),
  FOREIGN KEY (org_id, source_id) REFERENCES sources (org_id, id) ON DELETE CASCADE);

CREATE TABLE pull_requests (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, repo_ext_id text NOT NULL, number bigint NOT NULL,
  title text NOT NULL, author_ext_id text, author_is_bot boolean,
  state text NOT NULL CHECK (state IN ('open', 'closed', 'merged')), is_draft boolean NOT NULL, created_at timestamptz NOT NULL,
  merged_at timestamptz, closed_at timestamptz, head_sha text, merge_sha text, head_ref text, base_ref text,
  commits_total integer, additions bigint, deletions bigint, reverts_number bigint, detail_complete boolean NOT NULL,
  PRIMARY KEY (org_id, provider, host, ext_id));
CREATE INDEX pull_requests_by_merge ON pull_requests (org_id, merged_at) WHERE merged_at IS NOT NULL;

CREATE TABLE pr_commits (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, pr_ext_id text NOT NULL, ordinal integer NOT NULL,
  authored_at timestamptz, PRIMARY KEY (org_id, provider, host, pr_ext_id, ext_id));

CREATE TABLE pr_events (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, pr_ext_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('ready', 'draft', 'closed', 'reopened', 'merged', 'review_requested')),
  actor_ext_id text, at timestamptz NOT NULL, PRIMARY KEY (org_id, provider, host, ext_id));

CREATE TABLE reviews (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, kind text NOT NULL CHECK (kind IN ('review', 'comment')),
  pr_ext_id text NOT NULL, reviewer_ext_id text, reviewer_is_bot boolean,
  state text CHECK (state IN ('approved', 'changes_requested', 'commented', 'dismissed', 'pending')), commit_sha text,
  submitted_at timestamptz, PRIMARY KEY (org_id, provider, host, kind, ext_id));

CREATE TABLE work_items (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, key text NOT NULL, project_ext_id text NOT NULL, type text,
  status text NOT NULL, status_category text NOT NULL CHECK (status_category IN ('todo', 'in_progress', 'done', 'dropped')),
  resolution text, assignee_ext_id text, points numeric, created_at timestamptz NOT NULL, resolved_at timestamptz,
  history_complete boolean NOT NULL, PRIMARY KEY (org_id, provider, host, ext_id));

CREATE TABLE work_item_transitions (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, item_ext_id text NOT NULL, from_status text, to_status text NOT NULL,
  from_category text CHECK (from_category IN ('todo', 'in_progress', 'done', 'dropped')),
  to_category text NOT NULL CHECK (to_category IN ('todo', 'in_progress', 'done', 'dropped')),
  actor_ext_id text, at timestamptz NOT NULL, PRIMARY KEY (org_id, provider, host, item_ext_id, ext_id));
CREATE INDEX work_item_transitions_by_time ON work_item_transitions (org_id, at);

CREATE TABLE pipeline_runs (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, attempt integer NOT NULL, repo_ext_id text NOT NULL, name text,
  ref text, sha text,
  status text NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'skipped')),
  created_at timestamptz NOT NULL, started_at timestamptz, finished_at timestamptz,
  PRIMARY KEY (org_id, provider, host, ext_id, attempt));

CREATE TABLE deployments (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, repo_ext_id text NOT NULL, environment text,
  env_class text NOT NULL CHECK (env_class IN ('production', 'staging', 'other')), sha text,
  status text NOT NULL CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'inactive')), group_key text NOT NULL,
  created_at timestamptz NOT NULL, finished_at timestamptz, PRIMARY KEY (org_id, provider, host, ext_id));
CREATE INDEX deployments_by_end ON deployments (org_id, finished_at) WHERE finished_at IS NOT NULL;
"""


def upgrade() -> None:
    """Create the tables, add the columns."""
    op.execute(TABLES)


def downgrade() -> None:
    """Drop them, for the up-down-up test on an empty database."""
    op.execute(
        "DROP TABLE deployments, pipeline_runs, work_item_transitions, work_items, reviews, pr_events, pr_commits, "
        "pull_requests, source_names"
    )
    op.execute("ALTER TABLE sync_cursors DROP COLUMN asked_at, DROP COLUMN state_since")
