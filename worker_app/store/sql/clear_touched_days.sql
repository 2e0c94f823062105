-- Forget the days that were computed, but for those that were touched again meanwhile. Locked in order, as the pages lock them
-- that touch days: no two transactions wait in a circle.
WITH locked AS MATERIALIZED (
  SELECT d.day FROM touched_days d
  JOIN unnest(CAST(:days AS date[]), CAST(:revisions AS bigint[])) AS s (day, revision) ON s.day = d.day AND s.revision = d.revision
  WHERE d.org_id = :org_id ORDER BY d.day FOR UPDATE OF d)
DELETE FROM touched_days d USING locked WHERE d.org_id = :org_id AND d.day = locked.day
