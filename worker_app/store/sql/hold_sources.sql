-- Hold sources until the transaction ends, so that none is removed while a schedule is written that names it; how many there are.
SELECT count(*) FROM (
  SELECT 1 FROM sources WHERE org_id = :org_id AND id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR KEY SHARE) AS held
