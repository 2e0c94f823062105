-- A run of one source now, and its message. The same id twice is one run; another active run of the source gives no row.
WITH r AS (
  INSERT INTO sync_runs (id, org_id, kind, provider, source_id, trigger, exclusive_key, wakes, deadline_at)
  VALUES (:id, :org_id, 'sync', :provider, :source_id, 'manual', :source_id, 1, now() + interval '24 hours')
  ON CONFLICT DO NOTHING RETURNING id),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || id || '/dispatch/1', :org_id, 'dispatch_sync_run', 'sync', jsonb_build_object('run_id', id) FROM r)
SELECT id FROM r UNION ALL SELECT id FROM sync_runs WHERE id = :id AND source_id = :source_id
