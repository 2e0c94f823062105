"""Audit: what the stores themselves say of every run, batch, slot and message, kept by triggers that the tests install."""

from tests.chaos.dispatch import points
from tests.seed import execute
from worker_app.store.postgres import Postgres

SHORTER = 30 / points.CLAIM_SECONDS

TRIGGERS = f"""
CREATE TABLE chaos_audit (
  n bigserial, at double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp()), what text NOT NULL, id text NOT NULL,
  state text, is_end boolean NOT NULL DEFAULT false);
CREATE INDEX ON chaos_audit (id, what);

CREATE FUNCTION chaos_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO chaos_audit (what, id, state) VALUES (TG_ARGV[0], NEW.id, NEW.state);
  ELSIF OLD.finished_at IS NOT NULL THEN
    INSERT INTO chaos_audit (what, id, state) VALUES (TG_ARGV[0] || ' after its end', NEW.id, NEW.state);
  ELSIF OLD.state <> NEW.state OR OLD.lease_owner IS DISTINCT FROM NEW.lease_owner THEN
    INSERT INTO chaos_audit (what, id, state, is_end) VALUES (TG_ARGV[0], NEW.id, NEW.state, NEW.finished_at IS NOT NULL);
  ELSIF OLD.wakes <> NEW.wakes THEN
    INSERT INTO chaos_audit (what, id, state) VALUES ('armed', NEW.id, NEW.state);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_note AFTER INSERT OR UPDATE ON sync_runs FOR EACH ROW EXECUTE FUNCTION chaos_note('run');
CREATE TRIGGER chaos_note AFTER INSERT OR UPDATE ON sync_batches FOR EACH ROW EXECUTE FUNCTION chaos_note('batch');

CREATE FUNCTION chaos_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos_audit (what, id, state) VALUES ('ledger', NEW.job_id, NEW.outcome);
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_ledger AFTER INSERT ON schedule_occurrences FOR EACH ROW EXECUTE FUNCTION chaos_ledger();

CREATE FUNCTION chaos_sent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO chaos_audit (what, id) VALUES ('sent', OLD.dedupe), ('sent again', split_part(OLD.dedupe, '/', 2));
  RETURN NULL;
END $$;
CREATE TRIGGER chaos_sent AFTER DELETE ON task_outbox FOR EACH ROW EXECUTE FUNCTION chaos_sent();

-- The 30 seconds for which a relay claims a message stand in SQL; no test waits for so long.
CREATE FUNCTION chaos_shorten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.claimed_until := now() + (NEW.claimed_until - now()) / {SHORTER};
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_shorten BEFORE UPDATE ON task_outbox FOR EACH ROW
  WHEN (NEW.claimed_until IS DISTINCT FROM OLD.claimed_until) EXECUTE FUNCTION chaos_shorten();
"""


def install(postgres: Postgres) -> None:
    """Let the database keep its own record."""
    execute(postgres, TRIGGERS)
