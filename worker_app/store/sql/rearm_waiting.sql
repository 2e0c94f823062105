-- Whatever waits for a message: armed again when it was armed long ago, or, after Redis was emptied, when no outbox row
-- stands for it. A slow queue is no lost message, so the age is twice the visibility timeout.
WITH runs AS MATERIALIZED (
  SELECT id FROM sync_runs
  WHERE (state = 'queued' OR state = 'finishing' AND lease_until IS NULL)
    AND (armed_at < now() - make_interval(secs => :age_seconds)
         OR CAST(:redis_was_emptied AS boolean) AND NOT EXISTS (
           SELECT 1 FROM task_outbox WHERE kwargs ->> 'run_id' = CAST(sync_runs.id AS text)))
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
batches AS MATERIALIZED (
  SELECT id FROM sync_batches
  WHERE (state = 'queued' OR state = 'deferred' AND not_before <= now())
    AND (armed_at < now() - make_interval(secs => :age_seconds)
         OR CAST(:redis_was_emptied AS boolean) AND NOT EXISTS (
           SELECT 1 FROM task_outbox WHERE kwargs ->> 'batch_id' = CAST(sync_batches.id AS text)))
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
u AS (
  UPDATE sync_runs r SET wakes = r.wakes + 1, armed_at = now() FROM runs WHERE r.id = runs.id
  RETURNING r.id, r.org_id, r.kind, r.state, r.wakes),
v AS (
  UPDATE sync_batches b SET wakes = b.wakes + 1, armed_at = now() FROM batches WHERE b.id = batches.id
  RETURNING b.id, b.org_id, b.queue, b.wakes)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
SELECT 'run/' || u.id || '/' || t.step || '/' || u.wakes, u.org_id, t.task, t.queue, jsonb_build_object('run_id', u.id)
FROM u JOIN (VALUES ('sync', 'queued', 'dispatch', 'dispatch_sync_run', 'sync'),
                    ('sync', 'finishing', 'finish', 'finish_sync_run', 'sync'),
                    ('metrics', 'queued', 'dispatch', 'compute_daily_metrics', 'metrics')) AS t (kind, state, step, task, queue)
  ON t.kind = u.kind AND t.state = u.state
UNION ALL
SELECT 'batch/' || id || '/' || wakes, org_id, 'run_sync_batch', queue, jsonb_build_object('batch_id', id) FROM v
RETURNING id
