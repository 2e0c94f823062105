-- Slots that waited for an active run which is over: one run each, minted as the tick would have, and its outbox row.
WITH free AS MATERIALIZED (
  SELECT j.id, j.org_id, j.kind, j.provider, j.buffered_slot FROM scheduled_jobs j
  WHERE j.buffered_slot IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM sync_runs r WHERE r.exclusive_key = j.id AND r.state IN ('queued', 'planning', 'running', 'finishing'))
  ORDER BY j.id LIMIT 500 FOR UPDATE OF j SKIP LOCKED)
SELECT id, org_id, kind, provider, buffered_slot FROM free
