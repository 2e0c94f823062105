-- Batches whose lease ran out for the last time: taken by the rescuer, who closes them as failed.
WITH over AS MATERIALIZED (
  SELECT id FROM sync_batches
  WHERE state = 'running' AND lease_until < now() AND attempt + 1 >= :max_attempts
  ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)
UPDATE sync_batches b
SET lease_owner = :owner, lease_until = now() + interval '1 minute', attempt = b.attempt + 1
FROM over WHERE b.id = over.id RETURNING b.id
