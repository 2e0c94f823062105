-- The versions of credentials that a run was planned with, by name; primary keys.
SELECT c.name, c.host, c.version, c.state
FROM run_credentials k JOIN sync_runs r ON r.id = k.run_id
JOIN org_credentials c ON c.id = k.credential_id AND c.version = k.version AND c.org_id = r.org_id
WHERE k.run_id = :run_id
ORDER BY c.name, c.host
