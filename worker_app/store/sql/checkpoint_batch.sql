-- One page is stored: where to go on, whether that was all, and the first reason for which the walk is not complete. Tells
-- whether somebody wants the run to end. A page is progress: waits are counted anew from it.
UPDATE sync_batches
SET cursor = jsonb_build_object('position', CAST(:position AS text), 'is_over', CAST(:is_over AS boolean)), pages = pages + 1,
    records = records + :records, replaced_bytes = replaced_bytes + :replaced, stalled_since = NULL, deferrals = 0,
    incomplete_reason = coalesce(incomplete_reason, :incomplete_reason),
    lease_until = now() + make_interval(secs => :lease_seconds)
WHERE id = :id AND lease_owner = :owner AND state = 'running'
RETURNING (SELECT r.cancel_requested_at IS NOT NULL FROM sync_runs r WHERE r.id = sync_batches.run_id) AS is_cancelled
