-- The batches that failed in the last day (sync_runs_newest, sync_batches_run), of a dataset that was not read to its end since: what
-- was mended is no news, and what was not stays however many runs have ended meanwhile. The newest first.
SELECT b.id, b.run_id, o.name AS org, b.provider, coalesce(s.external_name, CAST(b.source_id AS text)) AS source, b.dataset, b.attempt,
       b.error_class, b.error, b.finished_at
FROM sync_runs r JOIN sync_batches b ON b.run_id = r.id JOIN orgs o ON o.id = b.org_id
     LEFT JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id
WHERE r.created_at > now() - interval '1 day' AND r.batches_failed > 0 AND b.state = 'failed'
  AND NOT EXISTS (
    SELECT FROM sync_cursors c WHERE c.org_id = b.org_id AND c.source_id = b.source_id AND c.dataset = b.dataset
      AND c.last_complete_start > b.finished_at)
ORDER BY b.finished_at DESC NULLS LAST, b.id LIMIT :shown
