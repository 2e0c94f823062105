-- Mark every day that has records, or metrics, in the organisation's zone as one to be computed; returns the days. In order, as
-- the pages do.
WITH recorded AS (
  SELECT DISTINCT (c.committed_at AT TIME ZONE o.tz)::date AS day
  FROM orgs o JOIN commits c ON c.org_id = o.id WHERE o.id = :org_id
  UNION
  SELECT m.day FROM metric_daily m WHERE m.org_id = :org_id)
INSERT INTO touched_days AS d (org_id, day)
SELECT :org_id, r.day FROM recorded r
WHERE (CAST(:start AS date) IS NULL OR r.day >= :start) AND (CAST(:end AS date) IS NULL OR r.day <= :end)
ORDER BY r.day
ON CONFLICT (org_id, day) DO UPDATE SET revision = d.revision + 1
RETURNING d.day
