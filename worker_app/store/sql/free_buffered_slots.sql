-- Jobs with a slot that waits, and no active run to wait for: of one job, or of all. Locked, so that no tick mints meanwhile.
SELECT j.id, j.buffered_slot FROM scheduled_jobs j
WHERE j.buffered_slot IS NOT NULL AND (CAST(:job_id AS uuid) IS NULL OR j.id = :job_id)
  AND NOT EXISTS (
    SELECT 1 FROM sync_runs r WHERE r.exclusive_key = j.id AND r.state IN ('queued', 'planning', 'running', 'finishing'))
ORDER BY j.id LIMIT 500 FOR UPDATE OF j SKIP LOCKED
