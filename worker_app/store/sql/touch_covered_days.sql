-- Days that have metrics and were not read to their end when these were computed, and now are, since the walk that is about to
-- move the cursor began after them: their coverage changed although no record did. Days from the last complete walk on.
INSERT INTO touched_days AS d (org_id, day)
SELECT DISTINCT m.org_id, m.day
FROM metric_daily m JOIN orgs o ON o.id = m.org_id
JOIN sync_cursors c ON c.org_id = m.org_id AND c.source_id = :source_id AND c.dataset = :dataset AND c.scope = ''
WHERE m.org_id = :org_id AND m.coverage < 1 AND m.day >= (c.last_complete_start AT TIME ZONE o.tz)::date
  AND m.day < (CAST(:at AS timestamptz) AT TIME ZONE o.tz)::date
ORDER BY m.day
ON CONFLICT (org_id, day) DO UPDATE SET revision = d.revision + 1
