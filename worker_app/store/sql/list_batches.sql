-- The batches of one run (sync_batches_run) as people see them, in the order of their planning.
SELECT b.id, b.run_id, coalesce(s.external_name, CAST(b.source_id AS text)) AS source, b.provider, b.dataset, b.state,
       b.window_start, b.window_end, b.pages, b.records, CAST(b.walk ->> 'total' AS bigint) AS expected, b.attempt, b.deferrals,
       b.created_at, b.started_at, b.finished_at, CASE WHEN b.state = 'running' THEN b.lease_until END AS lease_until,
       CASE WHEN b.state IN ('queued', 'deferred') THEN b.not_before END AS not_before,
       CASE WHEN b.state = 'deferred' THEN b.defer_reason END AS defer_reason,
       b.complete, b.incomplete_reason, b.error_class, b.error
FROM sync_batches b LEFT JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id
WHERE b.run_id = :run_id
  AND (CAST(:after_at AS timestamptz) IS NULL OR (b.created_at, b.id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid)))
ORDER BY b.created_at, b.id LIMIT :limit
