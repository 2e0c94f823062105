-- Erase the superseded versions that no open run was planned with (run_credentials_version, then primary key). One that was
-- replaced within the last hour stays: a plan that has not committed yet may have taken it, and nobody sees that. A row that
-- somebody holds is left for the next time, so that nobody waits for it. Small tables.
WITH unheld AS MATERIALIZED (
  SELECT c.id, c.version FROM org_credentials c
  WHERE c.state = 'superseded'
    AND EXISTS (SELECT 1 FROM org_credentials n
                WHERE n.id = c.id AND n.version > c.version AND n.created_at < now() - interval '1 hour')
    AND NOT EXISTS (SELECT 1 FROM run_credentials h JOIN sync_runs r ON r.id = h.run_id
                    WHERE h.credential_id = c.id AND h.version = c.version
                      AND r.state IN ('queued', 'planning', 'running', 'finishing'))
  FOR NO KEY UPDATE OF c SKIP LOCKED)
UPDATE org_credentials c SET wrapped_dek = '', ciphertext = '', state = 'revoked', revoked_at = now()
FROM unheld u WHERE c.id = u.id AND c.version = u.version
