-- Ledger rows that are older than the history that is kept. The newest row of a job stays: it tells where the job stands.
SELECT o.job_id, o.scheduled_for FROM schedule_occurrences o
WHERE o.scheduled_for < now() - make_interval(days => :days)
  AND EXISTS (SELECT 1 FROM schedule_occurrences n WHERE n.job_id = o.job_id AND n.scheduled_for > o.scheduled_for)
ORDER BY o.job_id, o.scheduled_for LIMIT :most
