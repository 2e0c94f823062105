-- Forget runs, with their batches, that ended before the history that is kept; the oldest first, by sync_runs_newest.
WITH old AS MATERIALIZED (
  SELECT id FROM sync_runs
  WHERE created_at < now() - make_interval(days => :days) AND finished_at < now() - make_interval(days => :days)
    AND state NOT IN ('queued', 'planning', 'running', 'finishing')
  ORDER BY created_at, id LIMIT 1000 FOR UPDATE SKIP LOCKED)
DELETE FROM sync_runs r USING old WHERE r.id = old.id
