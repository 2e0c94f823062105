-- The runs of an organisation that came into being in a period, by kind and state. Relies on sync_runs_recent; locks nothing.
SELECT kind, state, count(*) AS n FROM sync_runs
WHERE org_id = :org_id AND created_at >= :start AND created_at < :end GROUP BY kind, state
