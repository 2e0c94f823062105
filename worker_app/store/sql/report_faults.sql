-- The scheduled jobs of an organisation that cannot be served. The tick and `resume` clear fault and quarantine together.
SELECT id, kind, cron_source, tz, fault, fault_count, quarantined_until FROM scheduled_jobs
WHERE org_id = :org_id AND (fault IS NOT NULL OR quarantined_until IS NOT NULL)
