-- Which runs the overview shows: open ones, those that run before those that wait (sync_runs_open holds few rows), and the
-- newest that have ended.
(SELECT id, true AS is_open FROM sync_runs WHERE state IN ('queued', 'planning', 'running', 'finishing')
 ORDER BY state = 'queued', created_at, id LIMIT :shown)
UNION ALL
(SELECT id, false FROM sync_runs WHERE state NOT IN ('queued', 'planning', 'running', 'finishing')
 ORDER BY created_at DESC, id LIMIT :shown)
