-- What a person may mean: jobs, runs and batches whose id lies between the lowest and the highest that begin so (primary keys;
-- both NULL: it is no beginning of an id), and the jobs of the sources that have this name, or else this end of a name. A job
-- that names no source reads all of its provider. Sources stand in the answer too, so that one without a job can be named, and
-- the open runs of these sources that no job asked for: `active`, the newest first.
WITH near AS MATERIALIZED (
  SELECT s.org_id, s.id, s.provider, s.external_name, s.external_name = :text OR s.ext_id = :text OR CAST(s.id AS text) = :text AS is_exact
  FROM sources s
  WHERE s.external_name = :text OR s.ext_id = :text OR CAST(s.id AS text) = :text OR right(s.ext_id, length(:tail)) = :tail),
named AS MATERIALIZED (SELECT * FROM near WHERE is_exact OR NOT EXISTS (SELECT 1 FROM near n WHERE n.is_exact)),
found AS (
  (SELECT 'job' AS what, j.id, j.org_id, j.kind || ' ' || j.cron_source AS detail
   FROM scheduled_jobs j WHERE j.id BETWEEN CAST(:low AS uuid) AND CAST(:high AS uuid) ORDER BY j.id LIMIT :most)
  UNION
  (SELECT 'job', j.id, j.org_id, j.kind || ' ' || j.cron_source
   FROM named n JOIN scheduled_jobs j ON j.org_id = n.org_id AND j.kind = 'sync'
     AND (j.params -> 'sources' @> jsonb_build_array(CAST(n.id AS text)) OR j.params -> 'sources' IS NULL AND j.provider = n.provider)
   ORDER BY j.id LIMIT :most)
  UNION ALL
  (SELECT 'run', r.id, r.org_id, r.kind || ' ' || r.state
   FROM sync_runs r WHERE r.id BETWEEN CAST(:low AS uuid) AND CAST(:high AS uuid) ORDER BY r.id LIMIT :most)
  UNION ALL
  (SELECT 'batch', b.id, b.org_id, b.dataset || ' ' || b.state
   FROM sync_batches b WHERE b.id BETWEEN CAST(:low AS uuid) AND CAST(:high AS uuid) ORDER BY b.id LIMIT :most)
  UNION ALL
  (SELECT 'active', r.id, r.org_id, r.kind || ' ' || r.state
   FROM named n JOIN sync_runs r ON r.org_id = n.org_id AND r.source_id = n.id AND r.job_id IS NULL
     AND r.state IN ('queued', 'planning', 'running', 'finishing')
   ORDER BY r.created_at DESC, r.id LIMIT :most)
  UNION ALL
  (SELECT 'source', n.id, n.org_id, n.external_name FROM named n ORDER BY n.id LIMIT :most))
SELECT f.what, f.id, o.name AS org, f.detail FROM found f JOIN orgs o ON o.id = f.org_id ORDER BY f.what <> 'job', f.what, f.id
