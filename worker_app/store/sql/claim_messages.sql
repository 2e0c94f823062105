-- The relay's claim: 25 messages that are due and that no other relay holds. 25 bounds the duplicates of one kill. Never
-- "id above the last seen": a lower serial may commit later. The held ones are queues that are full; their messages stay here.
WITH due AS MATERIALIZED (
  SELECT id FROM task_outbox
  WHERE available_at <= now() AND (claimed_until IS NULL OR claimed_until < now()) AND queue <> ALL (CAST(:held AS text[]))
  ORDER BY available_at, id LIMIT 25 FOR UPDATE SKIP LOCKED)
UPDATE task_outbox o SET claimed_until = now() + interval '30 seconds', claim_token = :token, attempts = o.attempts + 1
FROM due WHERE o.id = due.id
RETURNING o.id, o.dedupe, o.task, o.queue, o.kwargs
