-- One document per page instead of one parameter per value. The days that the page touched, in the organisation's zone, are
-- marked in the same statement, in order, so that two pages never wait for each other in a circle. An older walk never
-- overwrites a newer one; a commit that is met again is reachable again.
WITH u AS (
  INSERT INTO commits AS t (org_id, provider, host, ext_id, source_id, updated_at, repo_ext_id, author_ext_id, author_email_hash,
                            authored_at, committed_at, is_merge, files, additions, deletions)
  SELECT :org_id, :provider, :host, r.ext_id, :source_id, :updated_at, r.repo_ext_id, r.author_ext_id,
         decode(r.author_email_hash, 'hex'), to_timestamp(r.authored_at), to_timestamp(r.committed_at), r.is_merge,
         r.files, r.additions, r.deletions
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (
    ext_id text, repo_ext_id text, author_ext_id text, author_email_hash text, authored_at bigint, committed_at bigint,
    is_merge boolean, files integer, additions bigint, deletions bigint)
  ON CONFLICT (org_id, provider, host, repo_ext_id, ext_id) DO UPDATE
  SET source_id = excluded.source_id, updated_at = excluded.updated_at, author_ext_id = excluded.author_ext_id,
      author_email_hash = excluded.author_email_hash, authored_at = excluded.authored_at, committed_at = excluded.committed_at,
      is_merge = excluded.is_merge, files = excluded.files, additions = excluded.additions, deletions = excluded.deletions,
      reachable = true
  WHERE excluded.updated_at >= t.updated_at
  RETURNING committed_at),
days AS (
  SELECT DISTINCT (u.committed_at AT TIME ZONE o.tz)::date AS day FROM u, orgs o WHERE o.id = :org_id ORDER BY day)
INSERT INTO touched_days AS d (org_id, day) SELECT :org_id, day FROM days
ON CONFLICT (org_id, day) DO UPDATE SET revision = d.revision + 1
