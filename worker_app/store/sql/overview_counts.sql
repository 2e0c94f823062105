-- How many there are, where the overview shows only the first.
SELECT 'open run' AS what, state, count(*) AS n FROM sync_runs
WHERE state IN ('queued', 'planning', 'running', 'finishing') GROUP BY state
UNION ALL
SELECT 'source', state, count(*) FROM sources GROUP BY state
UNION ALL
SELECT 'schedule', CASE WHEN fault IS NOT NULL THEN 'faulted' WHEN enabled THEN 'enabled' ELSE 'paused' END, count(*)
FROM scheduled_jobs GROUP BY 2
