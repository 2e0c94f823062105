-- What a report run was asked for: the slot that it serves, and what its scheduled job said then; of a run that an older program
-- minted, what the job says now, and nothing once that was removed.
SELECT coalesce(r.scheduled_for, r.created_at) AS slot, coalesce(r.params, j.params) AS params
FROM sync_runs r LEFT JOIN scheduled_jobs j ON j.id = r.job_id WHERE r.id = :run_id
