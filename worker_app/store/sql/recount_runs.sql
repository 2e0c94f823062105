-- Running runs whose counters disagree with their batches: counted anew; where all are closed, the run goes on to finish.
WITH counted AS MATERIALIZED (
  SELECT r.id, count(*) FILTER (WHERE b.state = 'succeeded') AS done,
         count(*) FILTER (WHERE b.state IN ('failed', 'cancelled')) AS failed, count(*) AS total
  FROM sync_runs r JOIN sync_batches b ON b.run_id = r.id
  WHERE r.state = 'running' AND r.kind IN ('sync', 'backfill') GROUP BY r.id),
wrong AS MATERIALIZED (
  SELECT r.id, c.done, c.failed, c.total FROM sync_runs r JOIN counted c ON c.id = r.id
  WHERE r.state = 'running' AND (r.batches_done <> c.done OR r.batches_failed <> c.failed OR c.done + c.failed = c.total)
  ORDER BY r.id LIMIT 500 FOR UPDATE OF r SKIP LOCKED),
u AS (
  UPDATE sync_runs r
  SET batches_done = w.done, batches_failed = w.failed, batches_total = w.total, wakes = r.wakes + 1, armed_at = now(),
      state = CASE WHEN w.done + w.failed = w.total THEN 'finishing' ELSE 'running' END
  FROM wrong w WHERE r.id = w.id RETURNING r.id, r.org_id, r.state, r.wakes)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
SELECT 'run/' || id || '/finish/' || wakes, org_id, 'finish_sync_run', 'sync', jsonb_build_object('run_id', id)
FROM u WHERE state = 'finishing' RETURNING id
