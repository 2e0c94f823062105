-- A metrics run and its message. The one that follows a sync run has a uuid5 id, which makes it one, and says whom it follows.
WITH r AS (
  INSERT INTO sync_runs (id, org_id, kind, trigger, params, wakes, deadline_at)
  VALUES (:id, :org_id, 'metrics', :trigger,
          CASE WHEN CAST(:follows AS text) IS NOT NULL THEN jsonb_build_object('follows', CAST(:follows AS text)) END,
          1, now() + interval '24 hours') ON CONFLICT DO NOTHING RETURNING id)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
SELECT 'run/' || id || '/dispatch/1', :org_id, 'compute_daily_metrics', 'metrics', jsonb_build_object('run_id', id) FROM r
