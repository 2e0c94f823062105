-- The next sealed rows that another key than :writes wraps. Going on behind the last one, not from the start, passes a row that
-- does not open once. Takes no lock: the wrapping happens outside any transaction. Walks the primary key.
SELECT org_id, provider, host, id, version, key_id, wrapped_dek, ciphertext
FROM org_credentials
WHERE key_id <> :writes AND state <> 'revoked' AND (id, version) > (:after_id, :after_version)
ORDER BY id, version
LIMIT :most
