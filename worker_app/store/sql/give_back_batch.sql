-- Give a batch back with its cursor, by compare-and-swap, and owe its next message. Three reasons share it: a drain or a passed
-- deadline (planned or queued, no attempt), a wait (deferred, no attempt), a fault (queued, one attempt, back-off). A batch that
-- goes back to planned gets its message when it is released again. Without an owner it is one that nobody has claimed and that
-- might be claimed now: a limit that is known keeps it from even that.
WITH b AS (
  UPDATE sync_batches s
  SET state = CAST(:state AS text), lease_owner = NULL, lease_until = NULL, not_before = now() + make_interval(secs => :wait_seconds),
      attempt = s.attempt + :spent,
      stalled_since = CASE WHEN CAST(:state AS text) = 'deferred' THEN coalesce(s.stalled_since, now()) ELSE s.stalled_since END,
      deferrals = s.deferrals + (CAST(:state AS text) = 'deferred')::int, defer_reason = CAST(:defer_reason AS jsonb),
      error_class = :error_class, error = :error, wakes = s.wakes + 1, armed_at = now()
  WHERE s.id = :batch_id
    AND (s.state = 'running' AND s.lease_owner = CAST(:owner AS uuid)
         OR CAST(:owner AS uuid) IS NULL AND s.state IN ('queued', 'deferred') AND (s.not_before IS NULL OR s.not_before <= now()))
  RETURNING s.id, s.org_id, s.queue, s.wakes, s.not_before),
o AS (
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs, available_at)
SELECT 'batch/' || id || '/' || wakes, org_id, 'run_sync_batch', queue, jsonb_build_object('batch_id', id), not_before FROM b
WHERE CAST(:state AS text) <> 'planned'
RETURNING id)
SELECT (SELECT count(*) FROM b) AS given, (SELECT count(*) FROM o) AS armed
