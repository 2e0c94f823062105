-- A scheduled job with another line, zone or rules; the caller has locked it. A slot that waits for an active run goes on waiting.
UPDATE scheduled_jobs
SET cron_source = :cron_source, cron = :cron, tz = :tz, next_run_at = :next_run_at,
    cron_engine = coalesce(CAST(:cron_engine AS smallint), cron_engine), overlap = :overlap, catchup = :catchup,
    catchup_max = :catchup_max, catchup_window = CAST(:catchup_window_seconds AS integer) * interval '1 second',
    max_jitter_seconds = :max_jitter_seconds, revision = revision + 1, fault = NULL, fault_count = 0, quarantined_until = NULL
WHERE id = :id
