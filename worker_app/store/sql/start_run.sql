-- The end of planning. A run without batches has nothing to wait for: it is finished next.
WITH r AS (
  UPDATE sync_runs
  SET batches_total = :total, lease_owner = NULL, lease_until = NULL, wakes = wakes + 1, armed_at = now(),
      state = CASE WHEN :total = 0 THEN 'finishing' ELSE 'running' END
  WHERE id = :id RETURNING id, org_id, state, wakes),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || id || '/finish/' || wakes, org_id, 'finish_sync_run', 'sync', jsonb_build_object('run_id', id)
  FROM r WHERE state = 'finishing')
SELECT state FROM r
