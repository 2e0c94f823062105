-- Open runs past their deadline are lost, and what is open of their batches is cancelled: nothing runs for ever.
WITH late AS MATERIALIZED (
  SELECT id FROM sync_runs
  WHERE state IN ('queued', 'planning', 'running', 'finishing') AND deadline_at < now()
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
b AS (
  UPDATE sync_batches s SET state = 'cancelled', lease_owner = NULL, lease_until = NULL, finished_at = now(), error_class = 'deadline',
      error = 'its run was not done by its deadline'
  FROM late WHERE s.run_id = late.id AND s.state IN ('planned', 'queued', 'running', 'deferred') RETURNING s.run_id),
n AS (SELECT run_id, count(*) AS closed FROM b GROUP BY run_id)
UPDATE sync_runs r
SET state = 'lost', lease_owner = NULL, lease_until = NULL, finished_at = now(), batches_failed = r.batches_failed + coalesce(n.closed, 0),
    error_class = 'deadline', error = 'it was not done by its deadline; ' || coalesce(n.closed, 0) || ' open batches were cancelled'
FROM late LEFT JOIN n ON n.run_id = late.id WHERE r.id = late.id RETURNING r.id
