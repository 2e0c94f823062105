-- With which credential, and which version of it, a batch was planned. Primary keys.
SELECT b.credential_id, c.version, c.fingerprint
FROM sync_batches b LEFT JOIN run_credentials c ON c.run_id = b.run_id AND c.credential_id = b.credential_id
WHERE b.id = :batch_id
