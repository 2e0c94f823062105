-- How much is owed, and how long the oldest message that may leave has waited.
SELECT count(*) AS depth,
       coalesce(extract(epoch FROM now() - min(available_at) FILTER (WHERE available_at <= now())), 0) AS age
FROM task_outbox
