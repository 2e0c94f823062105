-- Erase every version of a credential at once: the secret goes, the row stays for audit.
UPDATE org_credentials SET wrapped_dek = '', ciphertext = '', state = 'revoked', revoked_at = now()
WHERE id = :id AND org_id = :org_id AND state <> 'revoked'
