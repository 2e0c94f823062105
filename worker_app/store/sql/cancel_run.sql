-- Close what a run that is asked to end has not begun, under the run's lock; what runs closes itself at its next page. A run
-- that has nothing open any more is finished next; one without batches is closed at once. The caller holds the cap key.
WITH run AS MATERIALIZED (
  SELECT id, kind, state FROM sync_runs
  WHERE id = :id AND cancel_requested_at IS NOT NULL AND state IN ('queued', 'planning', 'running') FOR UPDATE),
b AS (
  UPDATE sync_batches s
  SET state = 'cancelled', lease_owner = NULL, lease_until = NULL, finished_at = now(), error_class = 'cancelled',
      error = 'its run was cancelled'
  FROM run WHERE s.run_id = run.id AND s.state IN ('planned', 'queued', 'deferred') RETURNING s.id),
r AS (
  UPDATE sync_runs t
  SET batches_failed = t.batches_failed + (SELECT count(*) FROM b), wakes = t.wakes + 1, armed_at = now(),
      lease_owner = CASE WHEN run.state <> 'planning' THEN NULL ELSE t.lease_owner END,
      lease_until = CASE WHEN run.state <> 'planning' THEN NULL ELSE t.lease_until END,
      state = CASE WHEN run.state = 'queued' OR run.state = 'running' AND t.kind IN ('metrics', 'report') THEN 'cancelled'
                   WHEN run.state = 'running' AND t.batches_done + t.batches_failed + (SELECT count(*) FROM b) >= t.batches_total
                   THEN 'finishing' ELSE t.state END,
      finished_at = CASE WHEN run.state = 'queued' OR run.state = 'running' AND t.kind IN ('metrics', 'report') THEN now() END
  FROM run WHERE t.id = run.id RETURNING t.id, t.org_id, t.state, t.wakes),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || id || '/finish/' || wakes, org_id, 'finish_sync_run', 'sync', jsonb_build_object('run_id', id)
  FROM r WHERE state = 'finishing')
SELECT state, (SELECT count(*) FROM b) AS closed FROM r
