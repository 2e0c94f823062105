-- Batches of some (organisation, provider, host) that might be claimed now (sync_batches_released), in groups. One whose message
-- is still owed lies in no queue and is not counted.
SELECT b.queue, b.org_id, b.provider, s.host, b.dataset, count(*) AS number
FROM unnest(CAST(:org_ids AS uuid[]), CAST(:providers AS text[]), CAST(:hosts AS text[])) AS k (org_id, provider, host)
JOIN sync_batches b ON b.org_id = k.org_id AND b.provider = k.provider AND b.state IN ('queued', 'deferred')
  AND (b.not_before IS NULL OR b.not_before <= now())
JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id AND s.host = k.host
WHERE NOT EXISTS (SELECT 1 FROM task_outbox m WHERE m.dedupe = 'batch/' || b.id || '/' || b.wakes)
GROUP BY b.queue, b.org_id, b.provider, s.host, b.dataset
