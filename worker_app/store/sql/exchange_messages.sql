-- One round of a relay in one statement: forget what it has published, then claim up to 25 more that are due and that no other
-- relay holds. 25 bounds the duplicates of one kill. Never "id above the last seen": a lower serial may commit later. The held
-- queues are full; their messages stay here. What a crash of Postgres takes back is published a second time, so that no
-- commit needs to wait for the disk.
SET LOCAL synchronous_commit = off;
WITH published AS (
  DELETE FROM task_outbox WHERE id = ANY (CAST(:published AS bigint[])) AND claim_token = :token),
due AS MATERIALIZED (
  SELECT id, available_at FROM task_outbox
  WHERE available_at <= now() AND (claimed_until IS NULL OR claimed_until < now()) AND queue <> ALL (CAST(:held AS text[]))
  ORDER BY available_at, id LIMIT 25 FOR UPDATE SKIP LOCKED)
UPDATE task_outbox o SET claimed_until = now() + interval '30 seconds', claim_token = :token, attempts = o.attempts + 1
FROM due WHERE o.id = due.id
RETURNING o.id, o.dedupe, o.task, o.queue, o.kwargs, o.org_id,
          CAST(extract(epoch FROM clock_timestamp() - due.available_at) AS double precision) AS age
