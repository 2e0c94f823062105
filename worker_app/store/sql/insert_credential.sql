-- A new version of a credential. Somebody else's add of the same name, or of the same next version, leaves this one without a row.
INSERT INTO org_credentials (id, version, org_id, provider, host, name, kind, key_id, wrapped_dek, ciphertext, fingerprint, created_by)
VALUES (:id, :version, :org_id, :provider, :host, :name, :kind, :key_id, :wrapped_dek, :ciphertext, :fingerprint, :created_by)
ON CONFLICT DO NOTHING
RETURNING id
