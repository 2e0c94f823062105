-- A run is what its batches became. Succeeded: every batch read all there was. Failed: every batch failed. Cancelled: somebody
-- asked for it and a batch did not get to its end. Anything between is partial. The first fault stands for all.
WITH c AS (
  SELECT count(*) AS total, count(*) FILTER (WHERE state = 'succeeded' AND complete) AS complete,
         count(*) FILTER (WHERE state = 'failed') AS failed, count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
         min(error) FILTER (WHERE state = 'failed') AS error, min(error_class) FILTER (WHERE state = 'failed') AS error_class,
         min(incomplete_reason) FILTER (WHERE NOT complete) AS reason
  FROM sync_batches WHERE run_id = :id)
UPDATE sync_runs r
SET lease_owner = NULL, lease_until = NULL, finished_at = now(),
    state = CASE WHEN c.complete = c.total THEN 'succeeded' WHEN c.failed = c.total THEN 'failed'
                 WHEN c.cancelled = c.total OR c.cancelled > 0 AND r.cancel_requested_at IS NOT NULL THEN 'cancelled'
                 ELSE 'partial' END,
    error = CASE WHEN c.complete < c.total THEN coalesce(c.error, CASE WHEN c.cancelled > 0 THEN 'it was cancelled' END, c.reason) END,
    error_class = CASE WHEN c.complete < c.total THEN coalesce(c.error_class, CASE WHEN c.cancelled > 0 THEN 'cancelled' END, 'incomplete') END
FROM c WHERE r.id = :id AND r.lease_owner = :owner AND r.state = 'finishing' RETURNING r.state, r.retries
