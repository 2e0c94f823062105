-- Batches whose lease ran out: queued again at their cursor, one attempt spent. Those out of attempts are left to the caller,
-- who closes each through close_batch.
WITH over AS MATERIALIZED (
  SELECT id FROM sync_batches
  WHERE state = 'running' AND lease_until < now() AND attempt + 1 < :max_attempts
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
u AS (
  UPDATE sync_batches b
  SET state = 'queued', attempt = b.attempt + 1, lease_owner = NULL, lease_until = NULL, wakes = b.wakes + 1, armed_at = now()
  FROM over WHERE b.id = over.id RETURNING b.id, b.org_id, b.queue, b.wakes)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
SELECT 'batch/' || id || '/' || wakes, org_id, 'run_sync_batch', queue, jsonb_build_object('batch_id', id) FROM u
RETURNING id
