-- Runs as people see them. A run whose released batches all wait for a moment shows as deferred. The source is named where
-- there is one; `expected` is unknown as soon as one walk does not know its total. A page behind another begins after its last
-- run (sync_runs_newest, sync_runs_recent). What the filter takes for deferred is what the column shows.
SELECT r.id, o.name AS org, r.kind, r.trigger, r.attempt + b.attempts AS attempt, r.batches_total, r.batches_done, r.batches_failed,
       b.records, r.created_at, r.started_at, r.finished_at, r.scheduled_for, coalesce(r.error, b.error) AS error,
       CASE WHEN r.state = 'running' AND b.deferred > 0 AND b.active = 0 THEN 'deferred' ELSE r.state END AS state,
       CASE WHEN b.sources = 1 THEN b.source WHEN b.sources > 1 THEN b.sources || ' sources'
            ELSE (SELECT s.external_name FROM sources s WHERE s.org_id = r.org_id AND s.id = r.source_id) END AS source,
       CASE WHEN b.total > 0 AND b.unknown = 0 THEN b.expected END AS expected
FROM (SELECT * FROM sync_runs x
      WHERE (CAST(:run_id AS uuid) IS NULL OR x.id = :run_id) AND (CAST(:org_id AS uuid) IS NULL OR x.org_id = :org_id)
        AND (CAST(:source_id AS uuid) IS NULL OR x.source_id = :source_id
             OR EXISTS (SELECT 1 FROM sync_batches y WHERE y.run_id = x.id AND y.source_id = :source_id))
        AND (CAST(:state AS text) IS NULL
             OR x.state = CASE :state WHEN 'deferred' THEN 'running' ELSE :state END
                AND (:state NOT IN ('running', 'deferred')
                     OR (:state = 'deferred') = (
                       EXISTS (SELECT 1 FROM sync_batches y WHERE y.run_id = x.id AND y.state = 'deferred')
                       AND NOT EXISTS (SELECT 1 FROM sync_batches y WHERE y.run_id = x.id AND y.state IN ('queued', 'running')))))
        AND (CAST(:after_at AS timestamptz) IS NULL
             OR x.created_at <= :after_at AND (x.created_at < :after_at OR x.id > :after_id))
      ORDER BY x.created_at DESC, x.id LIMIT :limit) r
JOIN orgs o ON o.id = r.org_id
CROSS JOIN LATERAL (
  SELECT count(*) AS total, coalesce(sum(records), 0)::bigint AS records, count(DISTINCT y.source_id) AS sources,
         coalesce(sum(y.attempt), 0)::integer AS attempts,
         min(s.external_name) AS source, count(*) FILTER (WHERE y.state = 'deferred') AS deferred,
         count(*) FILTER (WHERE y.state IN ('queued', 'running')) AS active, min(y.error) FILTER (WHERE y.state <> 'succeeded') AS error,
         count(*) FILTER (WHERE y.walk ->> 'total' IS NULL) AS unknown, sum((y.walk ->> 'total')::bigint)::bigint AS expected
  FROM sync_batches y LEFT JOIN sources s ON s.org_id = y.org_id AND s.id = y.source_id WHERE y.run_id = r.id) b
ORDER BY r.created_at DESC, r.id
