-- Erase the versions of a credential before this one at once: the secrets go, the rows stay for audit.
UPDATE org_credentials SET wrapped_dek = '', ciphertext = '', state = 'revoked', revoked_at = now()
WHERE id = :id AND org_id = :org_id AND version < :version AND state <> 'revoked'
