-- One run, and the message that is still owed to it: of its first step while it is queued, of its last while it is finishing.
SELECT now() AS now, r.id, r.org_id, o.name AS org, r.kind, r.provider, r.trigger, r.job_id, r.scheduled_for, r.state, r.batches_total,
       r.batches_done, r.batches_failed, r.lease_until, r.attempt, r.wakes, r.cancel_requested_at, r.deadline_at, r.error_class,
       r.error, r.created_at, r.armed_at, r.started_at, r.finished_at,
       m.available_at, m.claimed_until, m.attempts AS relay_attempts
FROM sync_runs r JOIN orgs o ON o.id = r.org_id
LEFT JOIN task_outbox m
  ON m.dedupe = 'run/' || r.id || CASE r.state WHEN 'finishing' THEN '/finish/' ELSE '/dispatch/' END || r.wakes
WHERE r.id = :id
