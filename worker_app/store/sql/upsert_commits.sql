-- Commits, as upsert_records writes the others. The days that the page touched, in the organisation's zone, are marked in the
-- same statement, in order, so that two pages never wait for each other in a circle. A commit that is met again is reachable
-- again, and gets the stamp of the walk that met it: what a full walk did not meet is found by that.
WITH u AS (
  INSERT INTO {table} AS t (org_id, provider, host, source_id, {columns})
  SELECT :org_id, :provider, :host, :source_id, {columns}
  FROM jsonb_populate_recordset(CAST(NULL AS {table}), CAST(:rows AS jsonb))
  ON CONFLICT (org_id, provider, host, {key}) DO UPDATE SET {changes}, reachable = true
  WHERE excluded.updated_at >= t.updated_at
  RETURNING committed_at),
days AS (
  SELECT DISTINCT (u.committed_at AT TIME ZONE o.tz)::date AS day FROM u, orgs o WHERE o.id = :org_id ORDER BY day)
INSERT INTO touched_days AS d (org_id, day) SELECT :org_id, day FROM days
ON CONFLICT (org_id, day) DO UPDATE SET revision = d.revision + 1
