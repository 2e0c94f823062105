-- Open runs past their deadline are lost, and what is open of their batches is cancelled: nothing runs for ever.
WITH late AS MATERIALIZED (
  SELECT id FROM sync_runs
  WHERE state IN ('queued', 'planning', 'running', 'finishing') AND deadline_at < now()
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED),
b AS (
  UPDATE sync_batches s SET state = 'cancelled', lease_owner = NULL, lease_until = NULL, finished_at = now()
  FROM late WHERE s.run_id = late.id AND s.state IN ('planned', 'queued', 'running', 'deferred') RETURNING s.id)
UPDATE sync_runs r
SET state = 'lost', lease_owner = NULL, lease_until = NULL, finished_at = now(), error_class = 'deadline',
    error = 'it was not done by its deadline; ' || (SELECT count(*) FROM b) || ' open batches were cancelled in this sweep'
FROM late WHERE r.id = late.id RETURNING r.id
