-- Runs whose lease ran out while they were planned, finished or computed: armed again; at five attempts they fail.
WITH over AS MATERIALIZED (
  SELECT id FROM sync_runs
  WHERE state IN ('planning', 'running', 'finishing')
    AND (lease_until < now()
         OR lease_until IS NULL AND (state = 'planning' OR state = 'running' AND kind IN ('metrics', 'report')))
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
u AS (
  UPDATE sync_runs r
  SET attempt = r.attempt + 1, lease_owner = NULL, lease_until = NULL, wakes = r.wakes + 1, armed_at = now(),
      state = CASE WHEN r.attempt + 1 >= :max_attempts THEN 'failed'
                   WHEN r.state IN ('planning', 'running') THEN 'queued' ELSE r.state END,
      finished_at = CASE WHEN r.attempt + 1 >= :max_attempts THEN now() END,
      error_class = CASE WHEN r.attempt + 1 >= :max_attempts THEN 'worker_lost' ELSE r.error_class END,
      error = CASE WHEN r.attempt + 1 >= :max_attempts
                   THEN 'its worker was lost ' || (r.attempt + 1) || ' times; look for the cause in the worker logs' ELSE r.error END
  FROM over WHERE r.id = over.id RETURNING r.id, r.org_id, r.kind, r.state, r.wakes),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || u.id || '/' || t.step || '/' || u.wakes, u.org_id, t.task, t.queue, jsonb_build_object('run_id', u.id)
  FROM u JOIN (VALUES ('sync', 'queued', 'dispatch', 'dispatch_sync_run', 'sync'),
                      ('sync', 'finishing', 'finish', 'finish_sync_run', 'sync'),
                      ('metrics', 'queued', 'dispatch', 'compute_daily_metrics', 'metrics'),
                      ('report', 'queued', 'dispatch', 'render_report', 'reports')) AS t (kind, state, step, task, queue)
    ON t.kind = u.kind AND t.state = u.state
  RETURNING id)
SELECT (SELECT count(*) FROM u) AS rescued, (SELECT count(*) FROM o) AS armed
