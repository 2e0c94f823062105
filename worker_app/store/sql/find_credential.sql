-- One version of a credential of an organisation, the newest unless one is named. Both halves of the key stand in the WHERE:
-- the id of another organisation finds nothing. Primary key.
SELECT org_id, provider, host, id, version, name, key_id, wrapped_dek, ciphertext, fingerprint, state,
       EXISTS (SELECT 1 FROM org_credentials a WHERE a.id = c.id AND a.state = 'active') AS has_current,
       (last_used_at > now() - interval '1 hour') IS NOT TRUE AS use_is_due
FROM org_credentials c
WHERE id = :id AND org_id = :org_id AND (CAST(:version AS integer) IS NULL OR version = :version)
ORDER BY version DESC LIMIT 1
