-- How long ago the last complete walk of each dataset began, of the source that is furthest behind, and how many slots of a
-- schedule have passed since, by the index of their ledger. Only what a schedule that is switched on reads: what nobody syncs is
-- not late. The ids stay text, so that a list that is none breaks nothing.
WITH read AS (
  SELECT j.id AS job_id, j.org_id, item.id AS source_id, j.provider
  FROM scheduled_jobs j CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE WHEN jsonb_typeof(j.params -> 'sources') = 'array' THEN j.params -> 'sources' ELSE '[]' END) AS item (id)
  WHERE j.enabled AND j.kind = 'sync'
  UNION ALL
  SELECT id, org_id, NULL, provider FROM scheduled_jobs WHERE enabled AND kind = 'sync' AND params -> 'sources' IS NULL)
SELECT s.provider, c.dataset,
       CAST(greatest(extract(epoch FROM now() - min(c.last_complete_start)), 0) AS double precision) AS age_seconds,
       max(passed.slots) AS slots
FROM sync_cursors c JOIN sources s ON s.org_id = c.org_id AND s.id = c.source_id
     JOIN read r ON r.org_id = s.org_id
          AND (r.source_id = CAST(s.id AS text) OR r.source_id IS NULL AND r.provider = s.provider)
     CROSS JOIN LATERAL (
       SELECT count(*) AS slots FROM schedule_occurrences o
       WHERE o.job_id = r.job_id AND o.scheduled_for > c.last_complete_start) passed
WHERE c.state = 'active' AND c.last_complete_start IS NOT NULL AND s.state = 'active'
GROUP BY s.provider, c.dataset
