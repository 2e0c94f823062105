-- The batches that failed of some runs (sync_batches_run), the newest first.
SELECT b.id, b.run_id, o.name AS org, b.provider, coalesce(s.external_name, CAST(b.source_id AS text)) AS source, b.dataset, b.attempt,
       b.error_class, b.error, b.finished_at
FROM sync_batches b JOIN orgs o ON o.id = b.org_id LEFT JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id
WHERE b.run_id = ANY (CAST(:run_ids AS uuid[])) AND b.state = 'failed'
ORDER BY b.finished_at DESC NULLS LAST, b.id LIMIT :shown
