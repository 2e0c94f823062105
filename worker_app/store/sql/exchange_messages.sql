-- One round of a relay in one statement: forget what it has published, then claim up to 25 more that are due and that no other
-- relay holds. 25 bounds the duplicates of one kill. Never "id above the last seen": a lower serial may commit later. The held
-- queues are full; their messages stay here. What a crash of Postgres takes back is published a second time, so that no
-- commit needs to wait for the disk. What a message is about comes along for log lines; the metrics run that follows a sync run
-- names that one. The columns are the fields of `jobs.Message`, in their order.
SET LOCAL synchronous_commit = off;
WITH published AS (
  DELETE FROM task_outbox WHERE id = ANY (CAST(:published AS bigint[])) AND claim_token = :token),
due AS MATERIALIZED (
  SELECT id, available_at FROM task_outbox
  WHERE available_at <= now() AND (claimed_until IS NULL OR claimed_until < now()) AND queue <> ALL (CAST(:held AS text[]))
  ORDER BY available_at, id LIMIT 25 FOR UPDATE SKIP LOCKED),
claimed AS (
  UPDATE task_outbox o SET claimed_until = now() + interval '30 seconds', claim_token = :token, attempts = o.attempts + 1
  FROM due WHERE o.id = due.id
  RETURNING o.id, o.dedupe, o.task, o.queue, o.kwargs, o.org_id,
            CAST(extract(epoch FROM clock_timestamp() - due.available_at) AS double precision) AS age,
            CAST(substring(o.kwargs ->> 'batch_id' FROM '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') AS uuid) AS batch,
            CAST(substring(o.kwargs ->> 'run_id' FROM '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') AS uuid) AS run)
SELECT c.id, c.dedupe, c.task, c.queue, c.kwargs, c.age, jsonb_strip_nulls(jsonb_build_object(
         'org_id', c.org_id, 'provider', coalesce(b.provider, r.provider), 'run_id', r.id, 'batch_id', b.id,
         'correlation_id', coalesce(r.params ->> 'follows', CAST(r.id AS text)))) AS origin
FROM claimed c
LEFT JOIN sync_batches b ON b.id = c.batch
LEFT JOIN sync_runs r ON r.id = coalesce(b.run_id, c.run)
ORDER BY c.age DESC, c.id
