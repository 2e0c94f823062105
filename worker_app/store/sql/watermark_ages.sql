-- How long ago the last complete walk of each dataset began, of the source that is furthest behind. Only what a schedule that is
-- switched on reads: what nobody syncs is not late. The ids stay text, so that a list that is none breaks nothing.
WITH named AS (
  SELECT j.org_id, item.id AS source_id
  FROM scheduled_jobs j CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE WHEN jsonb_typeof(j.params -> 'sources') = 'array' THEN j.params -> 'sources' ELSE '[]' END) AS item (id)
  WHERE j.enabled AND j.kind = 'sync'),
every AS (
  SELECT org_id, provider FROM scheduled_jobs WHERE enabled AND kind = 'sync' AND params -> 'sources' IS NULL)
SELECT s.provider, c.dataset,
       CAST(greatest(extract(epoch FROM now() - min(c.last_complete_start)), 0) AS double precision) AS age_seconds
FROM sync_cursors c JOIN sources s ON s.org_id = c.org_id AND s.id = c.source_id
WHERE c.state = 'active' AND c.last_complete_start IS NOT NULL AND s.state = 'active'
  AND ((s.org_id, CAST(s.id AS text)) IN (SELECT org_id, source_id FROM named)
       OR (s.org_id, s.provider) IN (SELECT org_id, provider FROM every))
GROUP BY s.provider, c.dataset
