-- One batch, or the open batches of a run: each with the message that is still owed to it, and with another batch that walks the
-- same dataset of the same source under a live lease (sync_batches_released), for which it has to wait; and with the version of
-- the credential that it was planned with.
SELECT now() AS now, b.id, b.run_id, b.org_id, o.name AS org, b.provider, coalesce(s.external_name, CAST(b.source_id AS text)) AS source,
       b.dataset, b.queue, b.state, b.pages, b.records, b.lease_until, b.not_before, b.defer_reason, b.deferrals, b.attempt, b.wakes,
       b.complete, b.incomplete_reason, b.error_class, b.error, b.created_at, coalesce(b.armed_at, b.created_at) AS armed_at,
       b.started_at, b.finished_at, r.cancel_requested_at, r.deadline_at,
       m.available_at, m.claimed_until, m.attempts AS relay_attempts,
       y.id AS rival_id, y.run_id AS rival_run_id, y.lease_until AS rival_until,
       c.name AS credential_name, c.host AS credential_host, c.version AS credential_version, c.state AS credential_state
FROM sync_batches b JOIN sync_runs r ON r.id = b.run_id JOIN orgs o ON o.id = b.org_id
LEFT JOIN sources s ON s.org_id = b.org_id AND s.id = b.source_id
LEFT JOIN run_credentials k ON k.run_id = b.run_id AND k.credential_id = b.credential_id
LEFT JOIN org_credentials c ON c.id = k.credential_id AND c.version = k.version AND c.org_id = b.org_id
LEFT JOIN task_outbox m ON m.dedupe = 'batch/' || b.id || '/' || b.wakes
LEFT JOIN LATERAL (
  SELECT x.id, x.run_id, x.lease_until FROM sync_batches x
  WHERE x.org_id = b.org_id AND x.provider = b.provider AND x.source_id = b.source_id AND x.dataset = b.dataset
    AND x.state = 'running' AND x.lease_until >= now() AND x.id <> b.id AND b.state IN ('planned', 'queued', 'deferred')
  ORDER BY x.id LIMIT 1) y ON true
WHERE (CAST(:batch_id AS uuid) IS NULL OR b.id = :batch_id)
  AND (CAST(:run_id AS uuid) IS NULL OR b.run_id = :run_id AND b.state IN ('planned', 'queued', 'running', 'deferred'))
ORDER BY b.created_at, b.id
