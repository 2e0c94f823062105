-- Days whose coverage changes although no record does, since the walk that is about to move the cursor began after them: those
-- that were computed when they were not read to their end, and those that are being computed at this moment, which nobody sees
-- yet. Days from the last complete walk on; before the first one no day was covered. An older program tells in metric_daily alone.
INSERT INTO touched_days AS d (org_id, day)
SELECT o.id, x.day
FROM (SELECT u.day FROM uncovered_days u WHERE u.org_id = :org_id
      UNION
      SELECT m.day FROM metric_daily m WHERE m.org_id = :org_id AND m.coverage < 1
      UNION
      SELECT t.day FROM touched_days t WHERE t.org_id = :org_id) x
JOIN orgs o ON o.id = :org_id
LEFT JOIN sync_cursors c ON c.org_id = o.id AND c.source_id = :source_id AND c.dataset = :dataset AND c.scope = ''
WHERE x.day >= coalesce((c.last_complete_start AT TIME ZONE o.tz)::date, '-infinity')
  AND x.day < (CAST(:at AS timestamptz) AT TIME ZONE o.tz)::date
ORDER BY x.day
ON CONFLICT (org_id, day) DO UPDATE SET revision = d.revision + 1
