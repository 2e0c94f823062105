-- Take a run for one step by compare-and-swap: from the state that waits for it, or from one whose worker's lease ran out.
UPDATE sync_runs
SET state = :becomes, lease_owner = :owner, lease_until = now() + make_interval(secs => :lease_seconds),
    started_at = coalesce(started_at, now())
WHERE id = :id
  AND (state = :waiting AND (lease_until IS NULL OR lease_until < now()) OR state = :becomes AND lease_until < now())
RETURNING id, org_id, kind, provider, source_id, job_id, trigger
