-- Scheduled jobs as people see them, the next one first; all, those of one organisation, or one. The names of their sources
-- are joined once, as text: a row that somebody broke by hand is shown like the others.
SELECT j.id, j.org_id, o.name AS org, j.kind, j.provider, j.params -> 'sources' AS source_ids, coalesce(n.sources, '{}') AS sources,
       j.params ->> 'template' AS template,
       CASE WHEN j.params ->> 'period_days' ~ '^[0-9]{1,4}$' THEN CAST(j.params ->> 'period_days' AS integer) END AS period_days,
       j.cron_source, j.cron, j.tz, j.enabled, j.next_run_at, j.buffered_slot, j.catchup, j.catchup_max,
       CAST(extract(epoch FROM j.catchup_window) AS integer) AS catchup_window_seconds, j.overlap, j.max_jitter_seconds,
       j.fault, j.fault_count, j.quarantined_until
FROM scheduled_jobs j JOIN orgs o ON o.id = j.org_id
LEFT JOIN (
  SELECT x.id, array_agg(s.external_name ORDER BY s.external_name) AS sources
  FROM scheduled_jobs x CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE WHEN jsonb_typeof(x.params -> 'sources') = 'array' THEN x.params -> 'sources' ELSE '[]' END) AS p (source_id)
  JOIN sources s ON s.org_id = x.org_id AND CAST(s.id AS text) = p.source_id
  GROUP BY x.id) n ON n.id = j.id
WHERE (CAST(:org_id AS uuid) IS NULL OR j.org_id = :org_id) AND (CAST(:job_id AS uuid) IS NULL OR j.id = :job_id)
ORDER BY j.next_run_at NULLS LAST, j.id
