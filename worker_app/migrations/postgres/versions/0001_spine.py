"""The spine: organisations, sources, schedules, runs, batches, outbox, records of plain git, daily metrics.

Every table of a tenant has `org_id` first in its keys. Only `timestamptz`. Ledger and runs outlive their job, so `job_id`
is no foreign key there. The frozen frame of a walk stands in a column of its own, beside the small position that each page
rewrites: an unchanged wide value is not written again.
"""

from alembic import op

revision = "0001"
down_revision = None

OPEN = "('queued', 'planning', 'running', 'finishing')"

TABLES = f"""
CREATE TABLE orgs (
  id uuid PRIMARY KEY, name text NOT NULL UNIQUE, tz text NOT NULL DEFAULT 'UTC', created_at timestamptz NOT NULL DEFAULT now());

CREATE TABLE sources (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, id uuid NOT NULL,
  provider text NOT NULL CHECK (provider IN ('github', 'gitlab', 'jira', 'linear', 'git')), host text NOT NULL,
  external_name text NOT NULL, ext_id text, credential_id uuid, settings jsonb NOT NULL DEFAULT '{{}}',
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'archived', 'empty', 'sso_required', 'inaccessible', 'gone')),
  state_reason text, state_since timestamptz, state_evidence jsonb, first_seen timestamptz, last_seen timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (org_id, id), UNIQUE (org_id, provider, host, ext_id));

CREATE TABLE sync_cursors (
  org_id uuid NOT NULL, source_id uuid NOT NULL, dataset text NOT NULL, scope text NOT NULL DEFAULT '',
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disabled')), state_reason text,
  cursor_at timestamptz, cursor_tie text, tips jsonb, schema_version integer NOT NULL DEFAULT 1,
  last_complete_start timestamptz, last_reconciled_at timestamptz, missing_last bigint,
  PRIMARY KEY (org_id, source_id, dataset, scope),
  FOREIGN KEY (org_id, source_id) REFERENCES sources (org_id, id) ON DELETE CASCADE);

CREATE TABLE scheduled_jobs (
  id uuid PRIMARY KEY, org_id uuid NOT NULL REFERENCES orgs (id),
  kind text NOT NULL CHECK (kind IN ('sync', 'metrics', 'report')),
  provider text, params jsonb NOT NULL DEFAULT '{{}}',
  cron_source text NOT NULL, cron text NOT NULL, tz text NOT NULL DEFAULT 'UTC', cron_engine smallint NOT NULL DEFAULT 1,
  enabled boolean NOT NULL DEFAULT true, revision integer NOT NULL DEFAULT 1, next_run_at timestamptz, buffered_slot timestamptz,
  catchup text NOT NULL DEFAULT 'latest' CHECK (catchup IN ('none', 'latest', 'all')),
  catchup_window interval NOT NULL DEFAULT '7 days',
  catchup_max smallint NOT NULL DEFAULT 24 CHECK (catchup_max BETWEEN 1 AND 100),
  max_jitter_seconds integer NOT NULL DEFAULT 0 CHECK (max_jitter_seconds >= 0),
  overlap text NOT NULL DEFAULT 'skip' CHECK (overlap IN ('skip', 'buffer_one', 'allow', 'cancel_other')),
  fault text, fault_count integer NOT NULL DEFAULT 0,
  quarantined_until timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((kind = 'sync') = (provider IS NOT NULL)), CHECK (catchup <> 'all' OR overlap = 'allow'));
CREATE INDEX scheduled_jobs_due ON scheduled_jobs (org_id, next_run_at, id) WHERE enabled AND next_run_at IS NOT NULL;

CREATE TABLE schedule_occurrences (
  job_id uuid NOT NULL, scheduled_for timestamptz NOT NULL, org_id uuid NOT NULL, run_id uuid, dispatcher text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('minted', 'buffered', 'skipped_overlap', 'skipped_catchup')),
  skipped_slots integer NOT NULL DEFAULT 0, observed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (job_id, scheduled_for));

CREATE TABLE sync_runs (
  id uuid PRIMARY KEY, job_id uuid, scheduled_for timestamptz, org_id uuid NOT NULL REFERENCES orgs (id),
  kind text NOT NULL CHECK (kind IN ('sync', 'backfill', 'metrics', 'report')), provider text, source_id uuid,
  trigger text NOT NULL CHECK (trigger IN ('schedule', 'manual', 'webhook')), exclusive_key uuid,
  state text NOT NULL DEFAULT 'queued' CHECK (state IN
    ('queued', 'planning', 'running', 'finishing', 'succeeded', 'partial', 'failed', 'cancelled', 'lost')),
  batches_total integer, batches_done integer NOT NULL DEFAULT 0, batches_failed integer NOT NULL DEFAULT 0,
  lease_owner uuid, lease_until timestamptz, attempt integer NOT NULL DEFAULT 0, wakes integer NOT NULL DEFAULT 0,
  cancel_requested_at timestamptz, deadline_at timestamptz NOT NULL, error_class text, error text,
  created_at timestamptz NOT NULL DEFAULT now(), armed_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz, finished_at timestamptz, UNIQUE (job_id, scheduled_for)) WITH (fillfactor = 70);
CREATE UNIQUE INDEX sync_runs_one_active ON sync_runs (exclusive_key) WHERE state IN {OPEN};
CREATE INDEX sync_runs_open ON sync_runs (state, lease_until) WHERE state IN {OPEN};
CREATE INDEX sync_runs_recent ON sync_runs (org_id, created_at DESC);
CREATE INDEX sync_runs_newest ON sync_runs (created_at DESC, id);

CREATE TABLE sync_batches (
  id uuid PRIMARY KEY, run_id uuid NOT NULL REFERENCES sync_runs (id) ON DELETE CASCADE, org_id uuid NOT NULL,
  provider text NOT NULL, source_id uuid NOT NULL, dataset text NOT NULL, window_start timestamptz, window_end timestamptz,
  queue text NOT NULL, credential_id uuid, state text NOT NULL DEFAULT 'planned' CHECK (state IN
    ('planned', 'queued', 'running', 'deferred', 'succeeded', 'failed', 'cancelled')),
  walk jsonb, cursor jsonb, pages integer NOT NULL DEFAULT 0, records bigint NOT NULL DEFAULT 0,
  replaced_bytes bigint NOT NULL DEFAULT 0, lease_owner uuid, lease_until timestamptz,
  not_before timestamptz, defer_reason jsonb, stalled_since timestamptz, deferrals integer NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0, wakes integer NOT NULL DEFAULT 0, complete boolean, incomplete_reason text,
  error_class text, error text, created_at timestamptz NOT NULL DEFAULT now(), armed_at timestamptz,
  started_at timestamptz, finished_at timestamptz) WITH (fillfactor = 70);
CREATE INDEX sync_batches_run ON sync_batches (run_id);
CREATE INDEX sync_batches_planned ON sync_batches (org_id, provider, (queue = 'backfill'), (attempt = 0), created_at, id)
  WHERE state = 'planned';
CREATE INDEX sync_batches_released ON sync_batches (org_id, provider) WHERE state IN ('queued', 'running', 'deferred');
CREATE INDEX sync_batches_lease ON sync_batches (lease_until) WHERE state = 'running';

CREATE TABLE task_outbox (
  id bigserial PRIMARY KEY, dedupe text NOT NULL UNIQUE, org_id uuid NOT NULL, task text NOT NULL, queue text NOT NULL,
  kwargs jsonb NOT NULL, available_at timestamptz NOT NULL DEFAULT now(), claimed_until timestamptz, claim_token uuid,
  attempts integer NOT NULL DEFAULT 0) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_outbox_due ON task_outbox (available_at, id);

CREATE TABLE fleet_state (key text PRIMARY KEY, value text NOT NULL, updated_at timestamptz NOT NULL DEFAULT now());

CREATE TABLE repositories (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, full_name text NOT NULL, default_branch text, is_archived boolean,
  PRIMARY KEY (org_id, provider, host, ext_id));

CREATE TABLE commits (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, provider text NOT NULL, host text NOT NULL, ext_id text NOT NULL,
  source_id uuid NOT NULL, updated_at timestamptz NOT NULL, repo_ext_id text NOT NULL, author_ext_id text,
  author_email_hash bytea, authored_at timestamptz NOT NULL, committed_at timestamptz NOT NULL, is_merge boolean NOT NULL,
  files integer, additions bigint, deletions bigint, reachable boolean NOT NULL DEFAULT true,
  PRIMARY KEY (org_id, provider, host, repo_ext_id, ext_id));
CREATE INDEX commits_by_time ON commits (org_id, committed_at);

CREATE TABLE touched_days (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, day date NOT NULL, revision bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (org_id, day));

CREATE TABLE metric_daily (
  org_id uuid NOT NULL REFERENCES orgs (id) ON DELETE CASCADE, metric text NOT NULL,
  grain text NOT NULL CHECK (grain IN ('org', 'team', 'repo')), grain_id text NOT NULL, day date NOT NULL,
  definition_v smallint NOT NULL, num double precision NOT NULL, den double precision NOT NULL, n bigint NOT NULL,
  p50 double precision, p90 double precision, value double precision, coverage real NOT NULL, input_watermark timestamptz,
  computed_at timestamptz NOT NULL, PRIMARY KEY (org_id, metric, grain, grain_id, day, definition_v));
CREATE INDEX metric_daily_by_day ON metric_daily (org_id, day);
"""


def upgrade() -> None:
    """Create the tables."""
    op.execute(TABLES)


def downgrade() -> None:
    """Drop them, for the up-down-up test on an empty database."""
    op.execute(
        "DROP TABLE metric_daily, touched_days, commits, repositories, fleet_state, task_outbox, sync_batches, sync_runs, "
        "schedule_occurrences, scheduled_jobs, sync_cursors, sources, orgs"
    )
