-- Commits that no branch and no tag leads to any more: kept, marked, their days computed anew. Either the given ones, or,
-- after a full walk, all that the walk did not meet.
WITH u AS (
  UPDATE commits SET reachable = false
  WHERE org_id = :org_id AND provider = :provider AND host = :host AND repo_ext_id = :repo_ext_id AND reachable
    AND (ext_id = ANY (CAST(:ext_ids AS text[])) OR updated_at < CAST(:unmet_before AS timestamptz))
  RETURNING committed_at),
days AS (
  SELECT DISTINCT (u.committed_at AT TIME ZONE o.tz)::date AS day FROM u, orgs o WHERE o.id = :org_id ORDER BY day),
d AS (
  INSERT INTO touched_days AS d (org_id, day) SELECT :org_id, day FROM days
  ON CONFLICT (org_id, day) DO UPDATE SET revision = d.revision + 1 RETURNING day)
SELECT count(*) AS marked FROM u
