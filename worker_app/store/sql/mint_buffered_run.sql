-- The run of a slot that had waited for an active run, and its message. Its ledger row stands already.
WITH r AS (
  INSERT INTO sync_runs (id, job_id, scheduled_for, org_id, kind, provider, trigger, exclusive_key, wakes, deadline_at)
  VALUES (:id, :job_id, :slot, :org_id, :kind, :provider, 'schedule', :job_id, 1, now() + interval '24 hours')
  ON CONFLICT DO NOTHING RETURNING id)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
SELECT 'run/' || r.id || '/dispatch/1', :org_id, t.task, t.queue, jsonb_build_object('run_id', r.id)
FROM r, (VALUES ('sync', 'dispatch_sync_run', 'sync'), ('metrics', 'compute_daily_metrics', 'metrics')) AS t (kind, task, queue)
WHERE t.kind = :kind
