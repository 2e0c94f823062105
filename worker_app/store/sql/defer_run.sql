-- Put a run that cannot go on now back to wait, by compare-and-swap on the owner, and owe its next message for later. It spends
-- no attempt, and the worker's slot is free.
WITH u AS (
  UPDATE sync_runs SET state = 'queued', lease_owner = NULL, lease_until = NULL, wakes = wakes + 1, armed_at = now()
  WHERE id = :id AND lease_owner = :owner AND state = 'running' RETURNING id, org_id, kind, wakes)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs, available_at)
SELECT 'run/' || u.id || '/dispatch/' || u.wakes, u.org_id, t.task, t.queue, jsonb_build_object('run_id', u.id),
       now() + make_interval(secs => :seconds)
FROM u JOIN (VALUES ('metrics', 'compute_daily_metrics', 'metrics'), ('report', 'render_report', 'reports')) AS t (kind, task, queue)
  ON t.kind = u.kind
RETURNING id
