-- The first scheduled jobs of the overview: faults on top, then by their next slot. Names are looked up by key, and only for
-- the jobs that are shown: a scan of every source for every job grows with the square of the fleet.
SELECT j.id, o.name AS org, j.kind,
       ARRAY(SELECT s.external_name FROM jsonb_array_elements_text(
               CASE WHEN jsonb_typeof(j.params -> 'sources') = 'array' THEN j.params -> 'sources' ELSE '[]' END) AS item (id)
             JOIN sources s ON s.org_id = j.org_id AND CAST(s.id AS text) = item.id ORDER BY 1) AS sources,
       j.cron_source, j.tz, j.enabled, j.next_run_at, j.fault
FROM (SELECT * FROM scheduled_jobs ORDER BY fault IS NULL, next_run_at NULLS LAST, id LIMIT :shown) j
JOIN orgs o ON o.id = j.org_id
ORDER BY j.fault IS NULL, j.next_run_at NULLS LAST, j.id
