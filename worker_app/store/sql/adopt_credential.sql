-- Give a claimed batch of an older program's plan, which named no credential, the one that its source has now. The caller has
-- claimed the batch in this transaction, so nobody else does it.
UPDATE sync_batches b SET credential_id = coalesce(s.credential_id, :no_credential)
FROM sources s
WHERE b.id = :batch_id AND b.credential_id IS NULL AND s.org_id = b.org_id AND s.id = b.source_id
