-- The newest slots of a job in its ledger, and the run of each, also where it was minted later (a slot that had waited).
SELECT o.scheduled_for, o.outcome, o.skipped_slots, o.observed_at, coalesce(r.id, o.run_id) AS run_id, r.state AS run_state
FROM schedule_occurrences o LEFT JOIN sync_runs r ON r.job_id = o.job_id AND r.scheduled_for = o.scheduled_for
WHERE o.job_id = :id ORDER BY o.scheduled_for DESC LIMIT :most
