-- Whatever waits for a message that was armed before a moment, and for which no outbox row stands that still has to go out:
-- armed again. A row that a relay has claimed does not count: its message may have gone into what was lost. Asked for what was
-- armed before Redis was emptied, or so long ago that a slow queue cannot be the reason. The message of a batch that had to wait
-- is no older than the end of that wait.
WITH runs AS MATERIALIZED (
  SELECT id FROM sync_runs r
  WHERE (r.state = 'queued' OR r.state = 'finishing' AND r.lease_until IS NULL) AND r.armed_at <= :armed_before
    AND NOT EXISTS (
      SELECT 1 FROM task_outbox m
      WHERE m.dedupe = 'run/' || r.id || CASE r.state WHEN 'queued' THEN '/dispatch/' ELSE '/finish/' END || r.wakes
        AND (m.claimed_until IS NULL OR m.claimed_until < now()))
  ORDER BY r.id LIMIT 500 FOR UPDATE SKIP LOCKED),
batches AS MATERIALIZED (
  SELECT id FROM sync_batches b
  WHERE (b.state = 'queued' OR b.state = 'deferred' AND b.not_before <= now()) AND greatest(b.armed_at, b.not_before) <= :armed_before
    AND NOT EXISTS (
      SELECT 1 FROM task_outbox m
      WHERE m.dedupe = 'batch/' || b.id || '/' || b.wakes AND (m.claimed_until IS NULL OR m.claimed_until < now()))
  ORDER BY b.id LIMIT 500 FOR UPDATE SKIP LOCKED),
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
                    ('metrics', 'queued', 'dispatch', 'compute_daily_metrics', 'metrics'),
                    ('report', 'queued', 'dispatch', 'render_report', 'reports')) AS t (kind, state, step, task, queue)
  ON t.kind = u.kind AND t.state = u.state
UNION ALL
SELECT 'batch/' || id || '/' || wakes, org_id, 'run_sync_batch', queue, jsonb_build_object('batch_id', id) FROM v
RETURNING id
