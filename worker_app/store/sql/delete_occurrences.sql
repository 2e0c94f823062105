-- Forget ledger rows by their keys.
DELETE FROM schedule_occurrences o
USING unnest(CAST(:job_ids AS uuid[]), CAST(:slots AS timestamptz[])) AS t (job_id, slot)
WHERE o.job_id = t.job_id AND o.scheduled_for = t.slot
