-- One page is stored: where to go on, whether that was all, and the first reason for which the walk is not complete.
UPDATE sync_batches
SET cursor = jsonb_build_object('position', CAST(:position AS text), 'is_over', CAST(:is_over AS boolean)), pages = pages + 1,
    records = records + :records, replaced_bytes = replaced_bytes + :replaced, stalled_since = NULL,
    incomplete_reason = coalesce(incomplete_reason, :incomplete_reason),
    lease_until = now() + make_interval(secs => :lease_seconds)
WHERE id = :id AND lease_owner = :owner AND state = 'running'
