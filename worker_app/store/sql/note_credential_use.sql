-- Note that a version was used; once an hour is enough, and nobody waits for another one that notes the same.
UPDATE org_credentials SET last_used_at = now() WHERE (id, version) IN (
  SELECT id, version FROM org_credentials WHERE id = :id AND org_id = :org_id AND version = :version FOR NO KEY UPDATE SKIP LOCKED)
