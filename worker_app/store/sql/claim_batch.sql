-- Claim one batch by compare-and-swap. The caller holds the cap key of (organisation, provider), taken in an earlier
-- statement, so that the count below reads a snapshot younger than that lock. A batch whose lease ran out is taken over,
-- which spends an attempt; a live lease or a closed batch gives no row: the message is a duplicate. Two batches never walk the
-- same dataset of the same source at once: they would share a mirror and a cursor.
UPDATE sync_batches b
SET state = 'running', lease_owner = :owner, lease_until = now() + make_interval(secs => :lease_seconds),
    attempt = b.attempt + (b.state = 'running')::int, started_at = coalesce(b.started_at, now())
WHERE b.id = :batch_id
  AND (b.state IN ('queued', 'deferred') AND (b.not_before IS NULL OR b.not_before <= now())
       OR b.state = 'running' AND b.lease_until < now())
  AND (SELECT count(*) FROM sync_batches x
       WHERE x.org_id = b.org_id AND x.provider = b.provider AND x.state = 'running' AND x.lease_until >= now()
         AND x.id <> b.id) < :cap
  AND NOT EXISTS (SELECT 1 FROM sync_batches y
                  WHERE y.org_id = b.org_id AND y.provider = b.provider AND y.source_id = b.source_id AND y.dataset = b.dataset
                    AND y.state = 'running' AND y.lease_until >= now() AND y.id <> b.id)
RETURNING b.id, b.run_id, b.org_id, b.provider, b.source_id, b.dataset, b.attempt, b.walk, b.cursor ->> 'position' AS position,
          coalesce((b.cursor ->> 'is_over')::boolean, false) AS is_over, b.incomplete_reason,
          b.credential_id,
          (SELECT c.version FROM run_credentials c WHERE c.run_id = b.run_id AND c.credential_id = b.credential_id) AS version,
          (SELECT c.fingerprint FROM run_credentials c WHERE c.run_id = b.run_id AND c.credential_id = b.credential_id) AS fingerprint,
          now() AS claimed_at, (SELECT r.cancel_requested_at IS NOT NULL FROM sync_runs r WHERE r.id = b.run_id) AS is_cancelled
