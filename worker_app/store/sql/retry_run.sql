-- Open a closed run again for what failed of it: failed batches, or all that a lost run left open. A run that has no batches
-- begins anew. What is opened again gets the credential that its source has now. The caller holds the cap key and has locked the
-- run.
WITH b AS (
  UPDATE sync_batches s
  SET state = 'planned', attempt = 0, deferrals = 0, stalled_since = NULL, not_before = NULL, finished_at = NULL, complete = NULL,
      error_class = NULL, error = NULL,
      credential_id = coalesce((SELECT q.credential_id FROM sources q WHERE q.org_id = s.org_id AND q.id = s.source_id), :no_credential)
  FROM sync_runs t
  WHERE t.id = :id AND s.run_id = t.id AND (s.state = 'failed' OR s.state = 'cancelled' AND t.state = 'lost') RETURNING s.id),
r AS (
  UPDATE sync_runs t
  SET state = CASE WHEN coalesce(t.batches_total, 0) = 0 THEN 'queued' ELSE 'running' END, attempt = 0, retries = t.retries + 1,
      batches_failed = greatest(0, t.batches_failed - (SELECT count(*) FROM b)), wakes = t.wakes + 1, armed_at = now(), lease_owner = NULL,
      lease_until = NULL, finished_at = NULL, error_class = NULL, error = NULL, cancel_requested_at = NULL,
      deadline_at = now() + interval '24 hours'
  WHERE t.id = :id AND t.state IN ('partial', 'failed', 'lost') AND (coalesce(t.batches_total, 0) = 0 OR EXISTS (SELECT 1 FROM b))
  RETURNING t.id, t.org_id, t.kind, t.state, t.wakes),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || r.id || '/dispatch/' || r.wakes, r.org_id, t.task, t.queue, jsonb_build_object('run_id', r.id)
  FROM r JOIN (VALUES ('sync', 'dispatch_sync_run', 'sync'), ('metrics', 'compute_daily_metrics', 'metrics'),
                      ('report', 'render_report', 'reports')) AS t (kind, task, queue) ON t.kind = r.kind
  WHERE r.state = 'queued')
SELECT state, (SELECT count(*) FROM b) AS reopened FROM r
