-- Who holds the row of a job, if anybody: the transaction that last locked or changed the row stands in its xmax, and an open one
-- holds the lock of its own number. Looked up, never tried: a lock taken here would make a tick skip the job.
SELECT a.xact_start AS since, coalesce(a.application_name, '') AS application
FROM scheduled_jobs j
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = j.xmax AND l.granted AND l.mode = 'ExclusiveLock'
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE j.id = :id LIMIT 1
