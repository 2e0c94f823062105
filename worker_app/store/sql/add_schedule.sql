-- A new scheduled job, checked by who adds it. One that was added under the same id before stays as it is.
INSERT INTO scheduled_jobs (id, org_id, kind, provider, params, cron_source, cron, tz, cron_engine, next_run_at,
                            catchup, catchup_max, catchup_window, overlap, max_jitter_seconds)
VALUES (:id, :org_id, :kind, :provider, CAST(:params AS jsonb), :cron_source, :cron, :tz, :cron_engine, :next_run_at,
        :catchup, :catchup_max, :catchup_window, :overlap, :max_jitter_seconds)
ON CONFLICT (id) DO NOTHING
