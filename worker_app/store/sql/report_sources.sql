-- Every source of an organisation, a row for each of its datasets: how far it was read, and how its newest batch of the
-- period's runs ended. A dataset that was never read to its end has no cursor, its batch names it; a source without either
-- has one row. Runs by sync_runs_recent, their batches by sync_batches_run; locks nothing.
WITH ended AS (
  SELECT DISTINCT ON (b.source_id, b.dataset) b.source_id, b.dataset, b.finished_at, b.error_class,
         CASE WHEN b.state = 'succeeded' AND NOT coalesce(b.complete, false) THEN 'incomplete' ELSE b.state END AS ended
  FROM sync_runs r JOIN sync_batches b ON b.run_id = r.id
  WHERE r.org_id = :org_id AND r.created_at >= :start AND r.created_at < :end AND b.finished_at IS NOT NULL
  ORDER BY b.source_id, b.dataset, b.finished_at DESC, b.id),
d AS (
  SELECT source_id, dataset, scope FROM sync_cursors WHERE org_id = :org_id
  UNION ALL
  SELECT e.source_id, e.dataset, '' FROM ended e WHERE NOT EXISTS (
    SELECT 1 FROM sync_cursors c WHERE c.org_id = :org_id AND c.source_id = e.source_id AND c.dataset = e.dataset))
SELECT s.id AS source_id, s.external_name AS source, s.provider, s.state, s.state_reason AS reason, d.dataset,
       coalesce(d.scope, '') AS scope, coalesce(c.state = 'disabled', false) AS is_disabled, c.state_reason AS disabled_reason,
       c.last_complete_start AS began_at, e.finished_at AS ended_at, e.ended, e.error_class
FROM sources s
LEFT JOIN d ON d.source_id = s.id
LEFT JOIN sync_cursors c
  ON c.org_id = s.org_id AND c.source_id = d.source_id AND c.dataset = d.dataset AND c.scope = d.scope
LEFT JOIN ended e ON e.source_id = d.source_id AND e.dataset = d.dataset
WHERE s.org_id = :org_id
