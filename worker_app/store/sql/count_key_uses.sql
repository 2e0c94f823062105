-- How many versions of credentials and how many keys of the vault each key of the ring wraps. A revoked version holds nothing
-- sealed. Two small tables.
SELECT key_id, CAST(sum(rows) AS integer) AS rows, CAST(sum(vault_keys) AS integer) AS vault_keys
FROM (
  SELECT key_id, count(*) AS rows, 0 AS vault_keys FROM org_credentials WHERE state <> 'revoked' GROUP BY key_id
  UNION ALL
  SELECT key_id, 0, count(*) FROM vault_keys GROUP BY key_id) AS used
GROUP BY key_id
ORDER BY key_id
