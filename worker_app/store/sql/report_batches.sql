-- The batches of the period's runs by state, the failed ones by error class too. Relies on sync_runs_recent and
-- sync_batches_run; locks nothing.
SELECT b.state, CASE WHEN b.state = 'failed' THEN coalesce(b.error_class, 'unknown') END AS error_class, count(*) AS n
FROM sync_runs r JOIN sync_batches b ON b.run_id = r.id
WHERE r.org_id = :org_id AND r.created_at >= :start AND r.created_at < :end GROUP BY 1, 2
