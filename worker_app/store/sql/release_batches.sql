-- Let planned batches of one (organisation, provider) in, up to the cap: released = queued + running + deferred. The caller
-- holds the cap key. Redis then holds about cap messages per (organisation, provider); the rest waits here.
WITH pick AS MATERIALIZED (
  SELECT id FROM sync_batches
  WHERE org_id = :org_id AND provider = :provider AND state = 'planned' AND (not_before IS NULL OR not_before <= now())
  ORDER BY (queue = 'backfill'), (attempt = 0), created_at, id
  LIMIT greatest(0, :cap - (SELECT count(*) FROM sync_batches x
                            WHERE x.org_id = :org_id AND x.provider = :provider AND x.state IN ('queued', 'running', 'deferred')))
  FOR UPDATE SKIP LOCKED),
q AS (
  UPDATE sync_batches s SET state = 'queued', armed_at = now(), wakes = s.wakes + 1
  FROM pick WHERE s.id = pick.id RETURNING s.id, s.org_id, s.queue, s.wakes)
INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
SELECT 'batch/' || id || '/' || wakes, org_id, 'run_sync_batch', queue, jsonb_build_object('batch_id', id) FROM q
RETURNING id
