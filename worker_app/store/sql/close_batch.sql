-- Close a batch and count it in its run, in one statement: "the last one sees that none is left" loses runs under
-- concurrency. Lock order is run before batch. The compare-and-swap on the owner closes it once. One batch that leaves lets
-- one planned batch of the same (organisation, provider) in: backfill last, rescued first, then the oldest. One that had to
-- wait for this very source need wait no longer.
WITH run AS MATERIALIZED (
  SELECT id FROM sync_runs WHERE id = (SELECT run_id FROM sync_batches WHERE id = :batch_id) FOR UPDATE),
b AS (
  UPDATE sync_batches s
  SET state = :state, lease_owner = NULL, lease_until = NULL, finished_at = now(), complete = :complete,
      incomplete_reason = :incomplete_reason, error_class = :error_class, error = :error
  FROM run
  WHERE s.id = :batch_id AND s.run_id = run.id AND s.state = 'running' AND s.lease_owner = :owner
  RETURNING s.run_id, s.org_id, s.provider, s.source_id, s.dataset, (s.state = 'succeeded')::int AS ok),
r AS (
  UPDATE sync_runs t
  SET batches_done = t.batches_done + b.ok, batches_failed = t.batches_failed + 1 - b.ok, wakes = t.wakes + 1, armed_at = now(),
      state = CASE WHEN t.state = 'running' AND t.batches_done + t.batches_failed + 1 = t.batches_total
                   THEN 'finishing' ELSE t.state END
  FROM b WHERE t.id = b.run_id RETURNING t.id, t.org_id, t.state, t.wakes),
pick AS MATERIALIZED (
  SELECT id FROM sync_batches
  WHERE org_id = (SELECT org_id FROM b) AND provider = (SELECT provider FROM b) AND state = 'planned'
    AND (not_before IS NULL OR not_before <= now() OR (source_id, dataset) = (SELECT source_id, dataset FROM b))
  ORDER BY (queue = 'backfill'), (attempt = 0), created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED),
q AS (
  UPDATE sync_batches s SET state = 'queued', not_before = NULL, armed_at = now(), wakes = s.wakes + 1
  FROM pick WHERE s.id = pick.id RETURNING s.id, s.org_id, s.queue, s.wakes),
o AS (
  INSERT INTO task_outbox (dedupe, org_id, task, queue, kwargs)
  SELECT 'run/' || id || '/finish/' || wakes, org_id, 'finish_sync_run', 'sync', jsonb_build_object('run_id', id)
  FROM r WHERE state = 'finishing'
  UNION ALL
  SELECT 'batch/' || id || '/' || wakes, org_id, 'run_sync_batch', queue, jsonb_build_object('batch_id', id) FROM q
  RETURNING id)
SELECT (SELECT count(*) FROM b) AS closed, (SELECT count(*) FROM o) AS armed
