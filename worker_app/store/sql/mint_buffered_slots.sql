-- The runs of slots that had waited for an active run, and their messages; their ledger rows stand already. The caller has
-- locked the jobs. A slot is forgotten only when its run exists: another run may have become active since the caller looked.
WITH i AS (
  SELECT t.run_id, t.slot, j.id, j.org_id, j.kind, j.provider, j.params, j.overlap
  FROM unnest(CAST(:job_ids AS uuid[]), CAST(:slots AS timestamptz[]), CAST(:run_ids AS uuid[])) AS t (job_id, slot, run_id)
  JOIN scheduled_jobs j ON j.id = t.job_id AND j.buffered_slot = t.slot),
r AS (
  INSERT INTO sync_runs (id, job_id, scheduled_for, org_id, kind, provider, params, trigger, exclusive_key, wakes, deadline_at)
  SELECT run_id, id, slot, org_id, kind, provider, params, 'schedule', CASE WHEN overlap <> 'allow' THEN id END, 1,
         now() + interval '24 hours'
  FROM i ON CONFLICT DO NOTHING RETURNING id),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || r.id || '/dispatch/1', i.org_id, t.task, t.queue, jsonb_build_object('run_id', r.id)
  FROM r JOIN i ON i.run_id = r.id
  JOIN (VALUES ('sync', 'dispatch_sync_run', 'sync'), ('metrics', 'compute_daily_metrics', 'metrics'),
               ('report', 'render_report', 'reports')) AS t (kind, task, queue) ON t.kind = i.kind),
c AS (
  UPDATE scheduled_jobs s SET buffered_slot = NULL FROM i
  WHERE s.id = i.id AND (EXISTS (SELECT 1 FROM r WHERE r.id = i.run_id) OR EXISTS (SELECT 1 FROM sync_runs x WHERE x.id = i.run_id)))
SELECT count(*) AS minted FROM r
