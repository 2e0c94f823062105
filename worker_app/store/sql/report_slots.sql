-- The slots of a period that were served, by what became of them, and how many older ones were folded into them. Asked job by
-- job, by the ledger's key: the ledger has no index by organisation. So the slots of a removed job are not counted.
SELECT o.outcome, count(*) AS n, coalesce(sum(o.skipped_slots), 0)::bigint AS folded
FROM scheduled_jobs j JOIN schedule_occurrences o ON o.job_id = j.id
WHERE j.org_id = :org_id AND o.scheduled_for >= :start AND o.scheduled_for < :end GROUP BY o.outcome
