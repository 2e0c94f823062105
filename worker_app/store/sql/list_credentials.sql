-- What people see of credentials that can be used: those of one organisation, or all; no part of a secret. A small table.
SELECT c.id, c.org_id, o.name AS org, c.provider, c.host, c.name, c.kind, c.version, c.key_id, c.state, c.created_by, c.created_at,
       c.last_used_at,
       (SELECT count(*) FROM sources s WHERE s.org_id = c.org_id AND s.credential_id = c.id) AS sources_count
FROM org_credentials c JOIN orgs o ON o.id = c.org_id
WHERE c.state = 'active' AND (CAST(:org_id AS uuid) IS NULL OR c.org_id = :org_id)
  AND (CAST(:id AS uuid) IS NULL OR c.id = :id)
ORDER BY o.name, c.provider, c.host, c.name
